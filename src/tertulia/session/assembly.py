"""The one place that names concrete members: which wires, tools and journals a session is made of."""

from __future__ import annotations

import os.path
from pathlib import Path
from typing import cast

from tertulia.conversation.context import ConversationContext, Terms, prefs
from tertulia.conversation.floor import Surroundings
from tertulia.conversation.toolbox import Toolbox
from tertulia.errors import InvalidParams
from tertulia.events.bus import EventBus
from tertulia.events.clock import Clock, SystemClock, Timestamps
from tertulia.events.journal import Journal, NoJournal
from tertulia.mcp.view import McpView, NoServers
from tertulia.models.scripted import ScriptedModel
from tertulia.models.wire import Wire
from tertulia.protocol.events import SessionConfigured, Warning
from tertulia.protocol.ids import new_conversation_id, new_session_id
from tertulia.protocol.tool_events import McpServerStatus
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.scheduler.interrupts import Interrupts
from tertulia.scheduler.nursery import Nursery
from tertulia.scheduler.queue import Scheduler
from tertulia.scheduler.registry import TaskRegistry
from tertulia.scheduler.runner import Runner
from tertulia.session import describe
from tertulia.session.conversations import Conversations
from tertulia.session.parts import Parts
from tertulia.session.settings import Settings
from tertulia.tools.function import FunctionTool
from tertulia.tools.plan import UpdatePlan
from tertulia.tools.registry import ToolRegistry
from tertulia.tools.tool import Tool
from tertulia.version import __version__

_NO_MCP = "this build does not start MCP servers yet"
_TOUR = "no model is configured: answers come from the built-in script; set `model`, or use `-m scripted/FILE`"


def find_wire(model: object) -> Wire:
    """The wire for `provider/model`, for a Wire as it is, and for nothing the built-in tour."""
    match model:
        case None:
            return ScriptedModel.tour()
        case str() if model == "scripted/tour":
            return ScriptedModel.tour()
        case str() if model.startswith("scripted/"):
            return ScriptedModel.from_file(Path(model.removeprefix("scripted/")))
        case str():
            raise InvalidParams(f"model {model!r}: no provider of that name; this build knows scripted/FILE")
        case _:
            if not callable(getattr(model, "stream", None)):
                raise InvalidParams(f"model must be `provider/model` or a Wire, not {type(model).__name__}")
            return model  # pyright: ignore[reportReturnType]


def assemble(settings: Settings, *, clock: Clock | None = None, journal: Journal | None = None) -> Parts:
    """All parts of a session, connected, with its root conversation. Needs a running loop; waits for nothing."""
    clock = clock or SystemClock()
    journal = journal or NoJournal()
    session_id = new_session_id()
    bus = EventBus(session_id, clock, journal)
    root_id = new_conversation_id()
    default = _default_terms(settings)
    policy = describe.policy(settings.rights())
    bus.publish(SessionConfigured(root_id, describe.PROTOCOL_VERSION, __version__, default.wire.name, policy))
    toolbox = Toolbox(ToolRegistry([UpdatePlan(), *(_as_tool(function) for function in settings.tools)]))
    conversations = Conversations(
        root_id,
        default=default,
        ceiling=settings.rights(),
        find_wire=find_wire,
        toolbox=toolbox,
        bus=bus,
        clock=clock,
        journal=journal,
        mcp=NoServers(),
        skip_conflicts=settings.on_tool_conflict == "skip",
    )
    nursery, registry = Nursery(), TaskRegistry()
    around = Surroundings(bus, clock, toolbox, settings.tool_timeout_s, dict(settings.shell_environment))
    interrupts = Interrupts(conversations, bus, clock)
    grace = settings.close_timeout_s
    runner = Runner(conversations, around, nursery, registry, interrupts, grace)
    parts = Parts(
        session_id=session_id,
        settings=settings,
        clock=clock,
        timestamps=Timestamps(clock),
        bus=bus,
        toolbox=toolbox,
        conversations=conversations,
        scheduler=Scheduler(runner, interrupts, bus, clock, nursery, grace),
        registry=registry,
        nursery=nursery,
        mcp=tuple((name, "disabled", _NO_MCP) for name in sorted(settings.mcp_servers)),
    )
    _announce(parts)
    return parts


def _as_tool(given: object) -> Tool:
    """A tool as it is, or a plain typed function made into one."""
    if isinstance(getattr(given, "spec", None), ToolSpec):
        return cast(Tool, given)
    if callable(given):
        return FunctionTool(given)
    raise InvalidParams(f"tools: {given!r} is neither a tool nor a function")


def _default_terms(settings: Settings) -> Terms:
    rights = settings.defaults()
    view = McpView.new_from_manager(NoServers())
    wire = find_wire(settings.model)
    context = ConversationContext(None, None, view, prefs(rights, settings.shell_mode, wire.family))
    cwd = os.path.abspath(settings.cwd or ".")
    return Terms(context, rights, wire, "native", cwd, settings.shell_mode)


def _announce(parts: Parts) -> None:
    root = parts.conversations.root
    if parts.settings.model is None:
        parts.bus.publish(Warning(_TOUR, "no_model"))
    for name, _, error in parts.mcp:
        parts.bus.publish(McpServerStatus(name, "disabled", error))
    for conflict in parts.toolbox.offered(root.terms, root.terms.rights).conflicts:
        parts.bus.publish(Warning(conflict, "tool_conflict"))
