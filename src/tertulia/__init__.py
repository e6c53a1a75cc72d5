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
    from tertulia.context.agent_meta import AgentInstanceMeta
    from tertulia.context.definitions import McpServerStdio, ToolDefinition, ToolScope
    from tertulia.context.injector import SessionContextInjector
    from tertulia.context.provider import ContextProvider, SessionContext
    from tertulia.context.providers.canvas import CanvasContextProvider
    from tertulia.context.providers.identity import CoreContextProvider
    from tertulia.context.templates import load_template, render_template
    from tertulia.context.tokens import SessionToken, SessionTokenStore
    from tertulia.errors import TertuliaError
    from tertulia.executors.prompt.history_prompt import build_executor_prompt_with_history
    from tertulia.protocol.events import Event
    from tertulia.protocol.storage import Full, HeadersOnly, NoStorage, Ttl
    from tertulia.protocol.usage import Usage
    from tertulia.scheduler.reply import Reply
    from tertulia.session.handle import Conversation
    from tertulia.session.host import Host
    from tertulia.session.session import Session
    from tertulia.session.settings.settings import Settings
    from tertulia.tools.function import tool
    from tertulia.tools.tool import CallContext, Handoff, Result

_HOMES = {
    "AgentInstanceMeta": "tertulia.context.agent_meta",
    "CallContext": "tertulia.tools.tool",
    "CanvasContextProvider": "tertulia.context.providers.canvas",
    "ContextProvider": "tertulia.context.provider",
    "Conversation": "tertulia.session.handle",
    "CoreContextProvider": "tertulia.context.providers.identity",
    "Event": "tertulia.protocol.events",
    "Full": "tertulia.protocol.storage",
    "Handoff": "tertulia.tools.tool",
    "HeadersOnly": "tertulia.protocol.storage",
    "Host": "tertulia.session.host",
    "McpServerStdio": "tertulia.context.definitions",
    "NoStorage": "tertulia.protocol.storage",
    "Reply": "tertulia.scheduler.reply",
    "Result": "tertulia.tools.tool",
    "Session": "tertulia.session.session",
    "SessionContext": "tertulia.context.provider",
    "SessionContextInjector": "tertulia.context.injector",
    "SessionToken": "tertulia.context.tokens",
    "SessionTokenStore": "tertulia.context.tokens",
    "Settings": "tertulia.session.settings.settings",
    "TertuliaError": "tertulia.errors",
    "ToolDefinition": "tertulia.context.definitions",
    "ToolScope": "tertulia.context.definitions",
    "Ttl": "tertulia.protocol.storage",
    "Usage": "tertulia.protocol.usage",
    "build_executor_prompt_with_history": "tertulia.executors.prompt.history_prompt",
    "load_template": "tertulia.context.templates",
    "render_template": "tertulia.context.templates",
    "tool": "tertulia.tools.function",
}

__all__ = [
    "AgentInstanceMeta",
    "CallContext",
    "CanvasContextProvider",
    "ContextProvider",
    "Conversation",
    "CoreContextProvider",
    "Event",
    "Full",
    "Handoff",
    "HeadersOnly",
    "Host",
    "McpServerStdio",
    "NoStorage",
    "Reply",
    "Result",
    "Session",
    "SessionContext",
    "SessionContextInjector",
    "SessionToken",
    "SessionTokenStore",
    "Settings",
    "TertuliaError",
    "ToolDefinition",
    "ToolScope",
    "Ttl",
    "Usage",
    "__version__",
    "build_executor_prompt_with_history",
    "errors",
    "load_template",
    "render_template",
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
