"""Tertulia: one session, many isolated conversations.

    async with tertulia.Session.start(tertulia.Settings(model="scripted/tour")) as session:
        reply = await session.root.message("What can you do?")
        print(reply.text)

Names are loaded when they are first used: `import tertulia` stays quick, whatever the package grows into.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tertulia import errors
from tertulia.version import __version__

if TYPE_CHECKING:
    # For type checkers and editors, which do not follow __getattr__. At run time `_HOMES` says the same.
    from tertulia.errors import AgentError
    from tertulia.protocol.events import Event
    from tertulia.protocol.storage import Full, HeadersOnly, NoStorage, Ttl
    from tertulia.protocol.usage import Usage
    from tertulia.scheduler.reply import Reply
    from tertulia.session.handle import Conversation
    from tertulia.session.host import Host
    from tertulia.session.session import Session
    from tertulia.session.settings import Settings
    from tertulia.tools.function import tool
    from tertulia.tools.tool import CallContext, Handoff, Result

_HOMES = {
    "AgentError": "tertulia.errors",
    "CallContext": "tertulia.tools.tool",
    "Conversation": "tertulia.session.handle",
    "Event": "tertulia.protocol.events",
    "Full": "tertulia.protocol.storage",
    "Handoff": "tertulia.tools.tool",
    "HeadersOnly": "tertulia.protocol.storage",
    "Host": "tertulia.session.host",
    "NoStorage": "tertulia.protocol.storage",
    "Reply": "tertulia.scheduler.reply",
    "Result": "tertulia.tools.tool",
    "Session": "tertulia.session.session",
    "Settings": "tertulia.session.settings",
    "Ttl": "tertulia.protocol.storage",
    "Usage": "tertulia.protocol.usage",
    "tool": "tertulia.tools.function",
}

__all__ = [
    "AgentError",
    "CallContext",
    "Conversation",
    "Event",
    "Full",
    "Handoff",
    "HeadersOnly",
    "Host",
    "NoStorage",
    "Reply",
    "Result",
    "Session",
    "Settings",
    "Ttl",
    "Usage",
    "__version__",
    "errors",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name == "testing":
        return import_module("tertulia.testing")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tertulia' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
