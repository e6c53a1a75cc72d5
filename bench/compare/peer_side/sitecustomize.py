"""Refuses every connection and every look-up of a name that leaves the loopback.

Python imports a module of this name when it starts, so it holds for what a peer does while it is imported as well.
"""

from __future__ import annotations

import sys
from typing import Any

tried: set[str] = set()
"""The hosts that were refused."""
_LOOPBACK = ("127.", "::1", "localhost")


def _hook(event: str, details: tuple[Any, ...]) -> None:
    if event == "socket.connect":
        address = details[1]
        host = address[0] if isinstance(address, tuple) else "127.0.0.1"
    elif event == "socket.getaddrinfo":
        host = details[0] or "127.0.0.1"
    else:
        return
    name = host.decode() if isinstance(host, bytes) else str(host)
    if not name.startswith(_LOOPBACK):
        tried.add(name)
        raise PermissionError(f"this peer may not reach {name}")


sys.addaudithook(_hook)
