"""The one place that names concrete members: which wires, tools and journals a session is made of."""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from typing import cast

from msgspec.structs import replace

from tertulia.conversation.context import ConversationContext, Terms, prefs
from tertulia.conversation.floor import Surroundings
from tertulia.conversation.toolbox import Toolbox
from tertulia.errors import InvalidParams
from tertulia.events.bus import EventBus
from tertulia.events.clock import Clock, SystemClock, Timestamps
from tertulia.events.journal import Journal, NoJournal
from tertulia.mcp.view import McpView, NoServers
from tertulia.models.catalog import ModelProvider, WireName, locate
from tertulia.models.chat import ChatWire
from tertulia.models.choice import choose_model
from tertulia.models.http_wire import HttpWire
from tertulia.models.local import LocalWire
from tertulia.models.messages import MessagesWire
from tertulia.models.responses import ResponsesWire
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
from tertulia.session.environment import Environment
from tertulia.session.notary import Notary
from tertulia.session.parts import Parts
from tertulia.session.settings import Settings, current_environment
from tertulia.session.wires import WireShelf
from tertulia.tools.function import FunctionTool
from tertulia.tools.plan import UpdatePlan
from tertulia.tools.registry import ToolRegistry
from tertulia.tools.tool import Tool
from tertulia.tools.web_search import WebSearch
from tertulia.version import __version__

_NO_MCP = "this build does not start MCP servers yet"

_WIRES: dict[WireName, type[HttpWire]] = {"responses": ResponsesWire, "chat": ChatWire, "messages": MessagesWire}


class Models:
    """Knows which wire speaks to which model."""

    def __init__(self, settings: Settings, environment: Environment) -> None:
        self._providers = cast("Mapping[str, ModelProvider]", settings.model_providers)
        self._environment = environment

    def choose(self, model: object) -> tuple[object, str | None]:
        """The session's own model, and, where nobody was named and only the script is left, a sentence that says so."""
        if not (model is None or isinstance(model, str)):
            return model, None
        choice = choose_model(model, self._providers, self._environment.variables, self._environment.home)
        return ("scripted/tour", choice.why) if choice.model is None else (choice.model, None)

    def find(self, model: object) -> Wire:
        """For `provider/model`, and for a Wire as it is; InvalidParams says what there is."""
        if not isinstance(model, str):
            if not callable(getattr(model, "stream", None)):
                raise InvalidParams(f"model must be `provider/model` or a Wire, not {type(model).__name__}")
            return cast(Wire, model)
        provider_name, _, name = model.partition("/")
        match provider_name:
            case "scripted" if name:
                return ScriptedModel.tour() if name == "tour" else ScriptedModel.from_file(name)
            case "local" if name:
                return LocalWire(name, self._environment.home)
            case "local":
                return self.find(self.choose("local")[0])
            case _:
                return self._remote(model)

    def _remote(self, model: str) -> Wire:
        at = locate(model, self._providers, self._environment.variables)
        provider = replace(at.provider, context_window=at.context_window)
        return _WIRES[provider.wire](at.provider_name, at.model, provider, self._environment.variables.get)


def assemble(
    settings: Settings,
    *,
    clock: Clock | None = None,
    journal: Journal | None = None,
    environment: Environment | None = None,
) -> Parts:
    """All parts of a session, connected, with its root conversation. Needs a running loop; waits for nothing."""
    clock = clock or SystemClock()
    journal = journal or NoJournal()
    session_id = new_session_id()
    bus = EventBus(session_id, clock, journal)
    root_id = new_conversation_id()
    nursery, registry = Nursery(), TaskRegistry()
    models = Models(settings, environment or current_environment())
    model, untold = models.choose(settings.model)
    wires = WireShelf(models.find, nursery)
    default = _default_terms(settings, wires.find(model))
    policy = describe.policy(settings.rights())
    bus.publish(SessionConfigured(root_id, describe.PROTOCOL_VERSION, __version__, default.wire.name, policy))
    toolbox = Toolbox(ToolRegistry([UpdatePlan(), WebSearch(), *(_as_tool(function) for function in settings.tools)]))
    notary = Notary(
        default,
        settings.rights(),
        wires=wires,
        toolbox=toolbox,
        mcp=NoServers(),
        skip_conflicts=settings.on_tool_conflict == "skip",
    )
    conversations = Conversations(root_id, notary, bus=bus, clock=clock, journal=journal)
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
        wires=wires,
        mcp=tuple((name, "disabled", _NO_MCP) for name in sorted(settings.mcp_servers)),
    )
    _announce(parts, untold)
    return parts


def _as_tool(given: object) -> Tool:
    """A tool as it is, or a plain typed function made into one."""
    if isinstance(getattr(given, "spec", None), ToolSpec):
        return cast(Tool, given)
    if callable(given):
        return FunctionTool(given)
    raise InvalidParams(f"tools: {given!r} is neither a tool nor a function")


def _default_terms(settings: Settings, wire: Wire) -> Terms:
    rights = settings.defaults()
    view = McpView.new_from_manager(NoServers())
    context = ConversationContext(None, None, view, prefs(rights, settings.shell_mode, wire.family))
    cwd = os.path.abspath(settings.cwd or ".")
    return Terms(context, rights, wire, "native", cwd, settings.shell_mode)


def _announce(parts: Parts, untold: str | None) -> None:
    root = parts.conversations.root
    if untold is not None:
        parts.bus.publish(Warning(untold, "no_model"))
    for name, _, error in parts.mcp:
        parts.bus.publish(McpServerStatus(name, "disabled", error))
    for conflict in parts.toolbox.offered(root.terms, root.terms.rights).conflicts:
        parts.bus.publish(Warning(conflict, "tool_conflict"))
