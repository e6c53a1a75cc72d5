"""Looking for a model server on this machine. Only when asked: nobody's ports are knocked at unbidden."""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from tertulia.models.catalog import LOCAL_SERVERS, PROVIDERS, ModelProvider

TIMEOUT_S = 0.3
_LONGEST_LIST = 1 << 20


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


_models = msgspec.json.Decoder(_Models)


def discover_local_models(configured: Mapping[str, ModelProvider]) -> dict[str, list[str]]:
    """The usual local servers that answer, in their usual order, each with its models.

    Asks each for its list of models, all at once and each for as long as `TIMEOUT_S`, and sends nothing else. A server
    of another address than loopback is not asked, whoever configured it.
    """
    found: dict[str, list[str]] = {}

    def ask(name: str, base_url: str) -> None:
        if models := _list_models(base_url):
            found[name] = models

    addresses = {name: (configured.get(name) or PROVIDERS[name]).base_url for name in LOCAL_SERVERS}
    # In threads, because a timeout of a socket is for each byte: a server that dribbles would hold us for ever.
    threads = [threading.Thread(target=ask, args=address, daemon=True) for address in addresses.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    answered = dict(found)
    return {name: answered[name] for name in LOCAL_SERVERS if name in answered}


def _list_models(base_url: str) -> list[str]:
    # Here and not above: it takes as long to import as all the rest that a session needs of the models.
    import http.client

    try:
        address = urlsplit(base_url)
        host, port = address.hostname or "", address.port or 80
        if address.scheme != "http" or not _is_loopback(host):
            return []
        connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
        try:
            connection.request("GET", f"{address.path.rstrip('/')}/models")
            answer = connection.getresponse()
            body = answer.read(_LONGEST_LIST) if answer.status == 200 else b""
        finally:
            connection.close()
        return [model.id for model in _models.decode(body).data if model.id]
    except (OSError, ValueError, http.client.HTTPException, msgspec.DecodeError, RecursionError):
        # Whatever listens there is no server of models.
        return []


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
