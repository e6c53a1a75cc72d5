"""The one place that names concrete members: which wires, tools and journals a session is made of."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Mapping
from typing import cast

from msgspec.structs import replace

from tertulia.conversation.context import ConversationContext, Terms, prefs
from tertulia.conversation.floor import Surroundings
from tertulia.conversation.toolbox import Toolbox
from tertulia.errors import InvalidParams
from tertulia.events.bus import EventBus
from tertulia.events.clock import Clock, SystemClock, Timestamps
from tertulia.events.journal import Journal
from tertulia.mcp.manager import SessionServers
from tertulia.mcp.view import McpView
from tertulia.models.catalog import ModelProvider, WireName, locate
from tertulia.models.chat import ChatWire
from tertulia.models.choice import choose_model
from tertulia.models.http_wire import HttpWire
from tertulia.models.local import LocalWire
from tertulia.models.messages import MessagesWire
from tertulia.models.responses import ResponsesWire
from tertulia.models.scripted import ScriptedModel
from tertulia.models.wire import Wire
from tertulia.policy.turnstile import Turnstile
from tertulia.protocol.events import SessionConfigured, Warning
from tertulia.protocol.ids import ConversationId, new_conversation_id, new_session_id
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.scheduler.interrupts import Interrupts
from tertulia.scheduler.nursery import Nursery
from tertulia.scheduler.queue import Scheduler
from tertulia.scheduler.registry import TaskRegistry
from tertulia.scheduler.runner import Runner
from tertulia.session import describe
from tertulia.session.asking_back import AskingBack
from tertulia.session.conversations import Conversations
from tertulia.session.directory import SessionDirectory
from tertulia.session.environment import Environment
from tertulia.session.notary import Notary
from tertulia.session.parts import Parts
from tertulia.session.recollection import Recollection
from tertulia.session.recording import keep_swept, new_record
from tertulia.session.recovery import close_what_was_open
from tertulia.session.restoring import Restorer
from tertulia.session.server_list import servers_of
from tertulia.session.servers import Basement, candidates
from tertulia.session.settings import Settings, current_environment
from tertulia.session.views import Views
from tertulia.session.wires import WireShelf
from tertulia.session.workshop import Workshop, open_workshop
from tertulia.tools.apply_patch import MAX_ANSWER_BYTES, ApplyPatch
from tertulia.tools.conv import conv_tools
from tertulia.tools.function import FunctionTool
from tertulia.tools.local_shell import LocalShell
from tertulia.tools.mcp import McpTool
from tertulia.tools.plan import UpdatePlan
from tertulia.tools.registry import ToolRegistry
from tertulia.tools.shell import PLAIN, Shell
from tertulia.tools.terminal import ExecCommand, WriteStdin
from tertulia.tools.tool import Tool
from tertulia.tools.view_image import ViewImage
from tertulia.tools.web_search import WebSearch
from tertulia.version import __version__

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
    past: Recollection | None = None,
    basement: Basement | None = None,
) -> Parts:
    """All parts of a session, connected, with its conversations. Needs a running loop; waits for nothing.

    A new session with its root, recorded in the user's data directory unless a journal is given; or, with the
    journal that `recall` gave along, one of the past as its record says.
    """
    clock = clock or SystemClock()
    environment = environment or current_environment()
    session_id, root_id = (new_session_id(), new_conversation_id()) if past is None else past.identity()
    journal = journal or new_record(settings, session_id, clock, environment)
    epoch, last_seq = (0, 0) if past is None else (past.epoch + 1, past.last_seq)
    bus = EventBus(session_id, clock, journal, epoch=epoch, last_seq=last_seq)
    nursery = Nursery()
    models = Models(settings, environment)
    model, untold = models.choose(settings.model or (past.model if past else None) or None)
    wires = WireShelf(models.find, nursery)
    directory, workshop = SessionDirectory(), open_workshop(settings, environment, clock, bus)
    wire = wires.find(model)
    listed = servers_of(settings, environment)
    below = basement or Basement(settings, environment, clock, nursery)
    servers = SessionServers(below.pool, session_id, clock, bus.publish)
    toolbox = _toolbox(settings, directory, workshop, _remote(settings, servers, workshop, bus, clock))
    notary = _notary(settings, wires, wire, toolbox, servers)
    views = Views(servers, notary, bus)
    conversations = Conversations(root_id, notary, bus=bus, clock=clock, journal=journal)
    registry = TaskRegistry()
    parts = Parts(
        session_id=session_id,
        settings=settings,
        clock=clock,
        timestamps=Timestamps(clock),
        bus=bus,
        journal=journal,
        toolbox=toolbox,
        conversations=conversations,
        scheduler=_scheduler(settings, conversations, bus, clock, (toolbox, nursery, registry), views),
        registry=registry,
        nursery=nursery,
        wires=wires,
        workshop=workshop,
        servers=servers,
        views=views,
        basement=below if basement is None else None,
        began_after=last_seq,
    )
    directory.serve(parts)
    bus.metrics.knows = toolbox.knows
    _begin(parts, notary, past, untold)
    for warning in listed.warnings:
        bus.publish(Warning(warning, "mcp_servers"))
    servers.begin(candidates(listed, settings, environment))
    return parts


def _begin(parts: Parts, notary: Notary, past: Recollection | None, untold: str | None) -> None:
    """Say that the session is there, and who is in it. Whatever can be refused was refused before: it left no trace."""
    root_id = parts.conversations.root_id
    policy = describe.policy(parts.settings.rights())
    model = notary.default.wire.name
    parts.bus.publish(SessionConfigured(root_id, describe.PROTOCOL_VERSION, __version__, model, policy))
    if past is None:
        parts.conversations.begin()
    else:
        _bring_back(parts, past, notary)
    _announce(parts, untold)
    parts.nursery.start(parts.workshop.desk.keep_clean(), "approvals")
    keep_swept(parts)


def _remote(
    settings: Settings, servers: SessionServers, workshop: Workshop, bus: EventBus, clock: Clock
) -> Callable[[ToolSpec, ConversationId], Tool]:
    """Makes the tool behind a definition of an MCP server, for one conversation."""
    turnstile = Turnstile(clock, ceiling=settings.rights().limits, waited=bus.metrics.waited)
    asker = AskingBack(workshop.desk, workshop.elicitations)

    def tool(spec: ToolSpec, conversation: ConversationId) -> Tool:
        reached = servers.reached_from(conversation)
        return McpTool(spec, reached, workshop.desk, turnstile, asker, settings.tool_timeout_s)

    return tool


def _notary(settings: Settings, wires: WireShelf, wire: Wire, toolbox: Toolbox, servers: SessionServers) -> Notary:
    return Notary(
        _default_terms(settings, wire),
        settings.rights(),
        wires=wires,
        toolbox=toolbox,
        mcp=servers,
        skip_conflicts=settings.on_tool_conflict == "skip",
    )


def _scheduler(
    settings: Settings,
    conversations: Conversations,
    bus: EventBus,
    clock: Clock,
    shared: tuple[Toolbox, Nursery, TaskRegistry],
    views: Views,
) -> Scheduler:
    toolbox, nursery, registry = shared
    grace = settings.close_timeout_s
    environment = dict(settings.shell_environment)
    around = Surroundings(bus, clock, toolbox, settings.tool_timeout_s, environment, views.make_ready)
    interrupts = Interrupts(conversations, bus, clock)
    runner = Runner(conversations, around, nursery, registry, interrupts, grace)
    return Scheduler(runner, interrupts, bus, clock, nursery, grace)


def _toolbox(
    settings: Settings,
    directory: SessionDirectory,
    workshop: Workshop,
    remote: Callable[[ToolSpec, ConversationId], Tool],
) -> Toolbox:
    own = (*_command_tools(workshop), UpdatePlan(), WebSearch(), *conv_tools(directory))
    return Toolbox(ToolRegistry([*own, *map(_as_tool, settings.tools)]), {"default": PLAIN}, remote)


def _command_tools(workshop: Workshop) -> tuple[Tool, ...]:
    place, terminals = workshop.place, workshop.terminals
    patch = ApplyPatch(
        lambda argv, stdin, call: place.confined(argv, stdin, MAX_ANSWER_BYTES, call),
        lambda text, plan, call: place.approve_patch(text, len(plan.summary), call),
    )
    shells = (Shell(place, patch), LocalShell(place, patch))
    return (*shells, ExecCommand(place, terminals, patch), WriteStdin(place, terminals), patch, ViewImage(place))


def _bring_back(parts: Parts, past: Recollection, notary: Notary) -> None:
    restored = list(Restorer(past, notary, parts.clock, parts.journal).talks())
    for each in restored:
        parts.conversations.restore(each.talk, each.narrowed)
    for old in past.talks.values():
        if parts.conversations.peek(old.id) is None:
            parts.conversations.gone.add(old.id)
    close_what_was_open(parts, past, restored)


def _as_tool(given: object) -> Tool:
    """A tool as it is, or a plain typed function made into one."""
    if isinstance(getattr(given, "spec", None), ToolSpec):
        return cast(Tool, given)
    if callable(given):
        return FunctionTool(given)
    raise InvalidParams(f"tools: {given!r} is neither a tool nor a function")


def _default_terms(settings: Settings, wire: Wire) -> Terms:
    rights = settings.defaults()
    context = ConversationContext(None, None, McpView(), prefs(rights, settings.shell_mode, wire.family))
    cwd = os.path.abspath(settings.cwd or ".")
    return Terms(context, rights, wire, "native", cwd, settings.shell_mode)


def _announce(parts: Parts, untold: str | None) -> None:
    root = parts.conversations.root
    if untold is not None:
        parts.bus.publish(Warning(untold, "no_model"))
    for conflict in parts.toolbox.offered(root.terms, root.terms.rights).conflicts:
        parts.bus.publish(Warning(conflict, "tool_conflict"))
