"""How this process reaches other hosts: through which proxy, and whose certificates it trusts besides the system's.

Plain data and its parser: it opens no connection and reads no file. A proxy's password is in no text that it makes.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, cast
from urllib.parse import quote, unquote, urlsplit

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.protocol.name_hints import name_hint

PROXY_VARIABLES = {"https": "HTTPS_PROXY", "http": "HTTP_PROXY", "no_proxy": "NO_PROXY"}
"""The variables of the environment that give the entries of `[proxy]`; each counts in small letters first."""
_ENTRIES = (*PROXY_VARIABLES, "loopback")
_HOST = re.compile(r"[0-9A-Za-z._-]+|[0-9A-Fa-f:.]+(?:%[0-9A-Za-z._~-]+)?")
_NAME = re.compile(r"(?:\*?\.)?[0-9a-z_-]+(?:\.[0-9a-z_-]+)*")
_SHORT_NETWORK = re.compile(r"\d+(?:\.\d+){0,2}/\d+")

_Ip = IPv4Address | IPv6Address
_Network = IPv4Network | IPv6Network


class ProxyAddress(msgspec.Struct, frozen=True):
    """A proxy, and the password that it is given."""

    host: str
    port: int
    uses_tls: bool = False
    """Whether the proxy itself is spoken to over TLS."""
    credentials: str | None = None
    """The user and the password, with a colon between them."""

    @property
    def place(self) -> str:
        """Host and port, as they are shown to people."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def authorization(self) -> str | None:
        """The value of the header `Proxy-Authorization`."""
        return None if self.credentials is None else f"Basic {b64encode(self.credentials.encode()).decode()}"

    @property
    def url(self) -> str:
        """The whole address, with the password."""
        scheme = "https" if self.uses_tls else "http"
        if self.credentials is None:
            return f"{scheme}://{self.place}"
        user, _, password = self.credentials.partition(":")
        return f"{scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{self.place}"

    def secrets(self) -> Iterator[str]:
        """What must be in no record and no log."""
        if self.credentials is not None and self.authorization is not None:
            user, _, password = self.credentials.partition(":")
            token = password or user
            yield from {token, quote(token, safe=""), self.authorization.removeprefix("Basic ")}

    def __repr__(self) -> str:
        return f"ProxyAddress({self.place})"


class ProxyException(msgspec.Struct, frozen=True):
    """An entry of NO_PROXY: hosts that are reached without a proxy."""

    name: str = ""
    """The host itself and all below it; empty: every host."""
    network: _Network | None = None
    """Instead: all addresses of it. Names are not looked up."""
    port: int | None = None
    """None: it holds for every port."""

    def covers(self, host: str, address: _Ip | None, port: int) -> bool:
        """Whether a request to this host is one; `address`: the host, where it is an address and no name."""
        if self.port not in (None, port):
            return False
        if self.network is not None:
            return address is not None and address in self.network
        return not self.name or host == self.name or host.endswith(f".{self.name}")


class OutboundNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """Proxies by the scheme of what is asked, what is reached without one, and certificates."""

    https_proxy: ProxyAddress | None = None
    http_proxy: ProxyAddress | None = None
    exceptions: tuple[ProxyException, ...] = ()
    loopback: bool = False
    """Whether this machine is asked through a proxy as well."""
    ca_file: str | None = None
    ca_dir: str | None = None

    def proxy_for(self, url: str) -> ProxyAddress | None:
        """The proxy for requests to an address; None: it is asked directly."""
        address = urlsplit(url)
        proxy = self.https_proxy if address.scheme == "https" else self.http_proxy
        if proxy is None:
            return None
        host = _plain_host(address.hostname or "")
        number = _number(host)
        if not self.loopback and _is_loopback(host, number):
            return None
        port = address.port or (443 if address.scheme == "https" else 80)
        return None if any(entry.covers(host, number, port) for entry in self.exceptions) else proxy

    def proxies(self) -> Iterator[tuple[str, ProxyAddress]]:
        """Those that there are, each with the scheme that it is for."""
        for scheme, proxy in (("https", self.https_proxy), ("http", self.http_proxy)):
            if proxy is not None:
                yield scheme, proxy

    def secrets(self) -> Iterator[str]:
        """The passwords of the proxies."""
        for _, proxy in self.proxies():
            yield from proxy.secrets()


DIRECT = OutboundNetwork()


def proxy_table(variables: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """What the variables say: the variable, the entry of `[proxy]`, and its value. Small letters win, as with curl."""
    for entry, variable in PROXY_VARIABLES.items():
        for name in (variable.lower(), variable):
            if name in variables:
                yield name, entry, variables[name].strip()
                break


def access_from_table(table: object) -> OutboundNetwork:
    """Parse `[proxy]`; InvalidParams names the entry and, of addresses, no value: they may hold a password."""
    if isinstance(table, OutboundNetwork):
        return table
    if not isinstance(table, Mapping):
        raise InvalidParamsError("proxy must be a table with https, http, no_proxy or loopback")
    entries = cast("Mapping[Any, object]", table)
    for name in entries:
        if name not in _ENTRIES:
            raise InvalidParamsError(f"proxy has no {name!r:.80}; {name_hint(str(name), _ENTRIES)}")
    loopback = entries.get("loopback", False)
    if not isinstance(loopback, bool):
        raise InvalidParamsError(f"proxy.loopback must be true or false, not {loopback!r:.80}")
    return OutboundNetwork(
        https_proxy=_proxy("https", entries.get("https")),
        http_proxy=_proxy("http", entries.get("http")),
        exceptions=tuple(map(_exception, _words(entries.get("no_proxy", ())))),
        loopback=loopback,
    )


def _proxy(entry: str, value: object) -> ProxyAddress | None:
    if value in (None, "", "none"):
        return None
    problem = "must be the address of a proxy, such as http://proxy.example:3128"
    if not isinstance(value, str) or not value.isprintable():
        raise InvalidParamsError(f"proxy.{entry} {problem}")
    scheme, separator, _ = value.partition("://")
    if separator and scheme.lower() not in ("http", "https"):
        raise InvalidParamsError(f"proxy.{entry}: only http:// and https:// proxies can be used, not {scheme!r:.20}")
    try:
        address = urlsplit(value if separator else f"http://{value}")
        port = address.port
    except ValueError:
        raise InvalidParamsError(f"proxy.{entry} {problem}") from None
    host = address.hostname or ""
    is_plain = address.path in ("", "/") and not address.query and not address.fragment
    if not _HOST.fullmatch(host) or port == 0 or not is_plain or " " in value:
        raise InvalidParamsError(f"proxy.{entry} {problem}")
    uses_tls = address.scheme == "https"
    credentials = None
    if address.username is not None:
        credentials = f"{unquote(address.username)}:{unquote(address.password or '')}"
    return ProxyAddress(host, port or (443 if uses_tls else 80), uses_tls, credentials)


def _words(value: object) -> list[str]:
    """The entries of a list, or of a text with commas or spaces between them."""
    if isinstance(value, str):
        return value.replace(",", " ").split()
    words = cast("list[object]", value) if isinstance(value, list | tuple) else [None]
    if not all(isinstance(word, str) and word.strip() for word in words):
        raise InvalidParamsError("proxy.no_proxy must be a list of hosts, or a text with commas between them")
    return [str(word).strip() for word in words]


def _exception(text: str) -> ProxyException:
    word = text.lower()
    if word == "*":
        return ProxyException()
    if _SHORT_NETWORK.fullmatch(word):
        # As some systems write networks: 169.254/16.
        network, _, prefix = word.partition("/")
        word = f"{network}{'.0' * (3 - network.count('.'))}/{prefix}"
    try:
        return ProxyException(network=ip_network(word.strip("[]"), strict=False))
    except ValueError:
        pass
    host, colon, port = word.rpartition(":")
    host, colon, port = (host, colon, port) if colon else (port, "", "")
    if colon and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise _no_exception(text)
    number = _number(host.strip("[]"))
    if number is not None:
        return ProxyException(network=ip_network(number), port=int(port) if colon else None)
    name = "" if host == "*" else _plain_host(host)
    if name and not _NAME.fullmatch(name):
        raise _no_exception(text)
    return ProxyException(name.removeprefix("*").removeprefix("."), port=int(port) if colon else None)


def _no_exception(text: str) -> InvalidParamsError:
    return InvalidParamsError(
        f"proxy.no_proxy: {text!r:.80} is no host, address or network; write example.com, .example.com, 10.0.0.0/8, "
        "example.com:8080 or *"
    )


def _plain_host(host: str) -> str:
    """The name as it is compared: in small letters, without a dot at its end, and in ASCII."""
    host = host.lower().rstrip(".")
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return host


def _number(host: str) -> _Ip | None:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _is_loopback(host: str, number: _Ip | None) -> bool:
    if number is None:
        return host == "localhost" or host.endswith(".localhost")
    mapped = number.ipv4_mapped if isinstance(number, IPv6Address) else None
    return (mapped or number).is_loopback
