"""Which addresses a login may name: the metadata that names them comes from a server."""

from __future__ import annotations

from urllib.parse import urlsplit

from tertulia.errors import InvalidParamsError
from tertulia.policy.display_text import make_display_text
from tertulia.policy.hosts import is_public, parse_host

_SHOWN = 200
_LOCAL_NAME = "localhost"


def address_problem(address: str, server: str) -> str | None:
    """Why a request of the login to `server` must not be sent to that address, nor a person; None where it may.

    It is https, or plain http where it and the server are on this machine; and it is in no private network unless the
    server is in one.
    """
    try:
        parts, port = urlsplit(address), urlsplit(address).port
        host = parts.hostname or ""
        here = _is_here(host)
        private = here or _is_private(host)
    except (ValueError, InvalidParamsError):
        return f"{_shown(address)} is no address"
    server_host = urlsplit(server).hostname or ""
    if parts.scheme not in ("https", "http") or not host or port == 0 or parts.username or parts.password:
        return f"{_shown(address)} is no address like https://host/path"
    if parts.scheme == "http" and not (here and _is_here(server_host)):
        return f"{_shown(address)} is not encrypted; a login goes over https, or stays on this machine"
    if private and not _is_private(server_host) and not _is_here(server_host):
        return f"{_shown(address)} is in a private network, and the server is not"
    return None


def _is_here(host: str) -> bool:
    """Whether it is this machine."""
    if host.lower().removesuffix(".") == _LOCAL_NAME:
        return True
    address = parse_host(host).address
    return address is not None and address.is_loopback


def _is_private(host: str) -> bool:
    address = parse_host(host).address
    return address is not None and not is_public(address)


def _shown(address: str) -> str:
    # Without the query: it may hold a code.
    return f"`{make_display_text(address.partition('?')[0], max_characters=_SHOWN).text}`"
