"""The one place that names concrete members, with `assembly`: which wires, tools and context providers there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import msgspec
from msgspec.structs import replace

from tertulia.context.injector import SessionContextInjector, installed_providers
from tertulia.context.providers.canvas import CanvasContextProvider
from tertulia.context.providers.identity import CoreContextProvider
from tertulia.context.providers.skills import SkillsContextProvider
from tertulia.context.providers.workspace import WorkspaceContextProvider
from tertulia.conversation.toolbox import Toolbox
from tertulia.errors import InvalidParamsError
from tertulia.events.bus import EventBus
from tertulia.events.clock import Clock
from tertulia.events.journal import Journal
from tertulia.mcp.pool.session_servers import SessionServers
from tertulia.mcp.rate_limiter import FairLimiter, InFlight
from tertulia.models.catalog import PROVIDERS, ModelProvider, WireName, locate_model
from tertulia.models.choice import choose_model
from tertulia.models.http.chat import ChatWire
from tertulia.models.http.http_wire import HttpWire
from tertulia.models.http.messages import MessagesWire
from tertulia.models.http.responses import ResponsesWire
from tertulia.models.local.local_wire import LocalWire
from tertulia.models.scripted.script import fail
from tertulia.models.scripted.scripted_model import ScriptedModel
from tertulia.models.wire import Wire
from tertulia.policy.redaction import Redactor
from tertulia.protocol.ids import ConversationId, SessionId
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.scheduler.nursery import Nursery
from tertulia.session.agents.internal_tool import InternalTool
from tertulia.session.agents.registry import AgentRegistry
from tertulia.session.approvals.server_requests import ServerRequests
from tertulia.session.command_services import CommandServices
from tertulia.session.conversation_directory import ConversationDirectory
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.plugins import plugin_tool, plugin_wire
from tertulia.session.settings.settings import Settings
from tertulia.tools.conv import conv_tools
from tertulia.tools.editor import EditorView
from tertulia.tools.function import as_tool
from tertulia.tools.mcp_tool import McpTool
from tertulia.tools.patch.apply_patch import MAX_ANSWER_BYTES, ApplyPatch
from tertulia.tools.read_file import ReadFile
from tertulia.tools.registry import ToolRegistry
from tertulia.tools.shell.exec_command import ExecCommand, WriteStdin
from tertulia.tools.shell.shell import PLAIN, LocalShell, Shell
from tertulia.tools.tool import Tool
from tertulia.tools.update_plan import UpdatePlan
from tertulia.tools.view_image import ViewImage
from tertulia.tools.web_search import WebSearch

_WIRES: dict[WireName, type[HttpWire]] = {"responses": ResponsesWire, "chat": ChatWire, "messages": MessagesWire}


class ModelCatalogue:
    """Knows which wire speaks to which model."""

    def __init__(self, settings: Settings, environment: Environment) -> None:
        self._providers = cast("Mapping[str, ModelProvider]", settings.model_providers)
        self._environment = environment

    def choose(self, model: object) -> tuple[object, str | None]:
        """The session's own model, and a sentence where the user named none and only the script is left."""
        if not (model is None or isinstance(model, str)):
            return model, None
        choice = choose_model(model, self._providers, self._environment.variables, self._environment.home)
        return ("scripted/tour", choice.why) if choice.model is None else (choice.model, None)

    def find(self, model: object) -> Wire:
        """For `provider/model`, and for a Wire as it is; InvalidParams says what there is."""
        if not isinstance(model, str):
            if not callable(getattr(model, "stream", None)):
                raise InvalidParamsError(f"model must be `provider/model` or a Wire, not {type(model).__name__}")
            return cast(Wire, model)
        provider_name, _, name = model.partition("/")
        match provider_name:
            case "scripted" if name == "inline":
                return _missing_model(model)
            case "scripted" if name:
                return ScriptedModel.tour() if name == "tour" else ScriptedModel.from_file(name)
            case "local" if name:
                return LocalWire(name, self._environment.home)
            case "local":
                return self.find(self.choose("local")[0])
            case _:
                return self._remote(model)

    def _remote(self, model: str) -> Wire:
        name, _, rest = model.partition("/")
        # What is configured or ours comes first: no package can put itself in its place.
        if rest and name not in self._providers and name not in PROVIDERS:
            wire = plugin_wire(name, rest, self._environment.variables)
            if wire is not None:
                return wire
        at = locate_model(model, self._providers, self._environment.variables)
        provider = replace(at.provider, context_window=at.context_window)
        return _WIRES[provider.wire](at.provider_name, at.model, provider, self._environment.variables.get)


def _missing_model(model: str) -> Wire:
    """Stands for a model that was an object of another program: all that a session has of it is its name."""
    why = f"{model} was an object of the program that began this session, and is gone with it; name another model"
    return ScriptedModel([fail(why)], name=model, repeat=True)


class SessionFoundation(msgspec.Struct, frozen=True, eq=False):
    """What everything else of a session stands on."""

    session_id: SessionId
    root_id: ConversationId
    settings: Settings
    environment: Environment
    clock: Clock
    redactor: Redactor
    journal: Journal
    bus: EventBus
    nursery: Nursery


def remote_tools(
    base: SessionFoundation,
    servers: SessionServers,
    agent_registry: AgentRegistry,
    command_services: CommandServices,
    in_flight: InFlight,
) -> Callable[[ToolSpec, ConversationId], Tool]:
    """Makes the tool behind a definition of an MCP server or of a context provider, for one conversation."""
    limits, timeout_s = base.settings.rights().limits, base.settings.tool_timeout_s
    broker = base.settings.is_broker
    if broker:
        # There it bounds each program: together they would have no more than one can use up.
        limits = msgspec.structs.replace(limits, mcp_concurrency=None)
    limiter = FairLimiter(
        base.clock, ceiling=limits, waited=base.bus.metrics.waited, shared=in_flight, leaves_room=broker
    )
    asker = ServerRequests(command_services.approvals, command_services.elicitations, has_workspace=not broker)

    def tool(spec: ToolSpec, conversation: ConversationId) -> Tool:
        if spec.source == "injector":
            return InternalTool(spec, agent_registry)
        return McpTool(
            spec,
            conversation,
            servers=servers,
            approvals=command_services.approvals,
            limiter=limiter,
            asker=asker,
            timeout_s=timeout_s,
        )

    return tool


def toolbox_for(
    settings: Settings,
    directory: ConversationDirectory,
    command_services: CommandServices,
    remote: Callable[[ToolSpec, ConversationId], Tool],
) -> Toolbox:
    """All tools of a session: ours, then the application's."""
    editor = None if settings.buffers is None else EditorView(command_services.place, settings.buffers)
    own = (*_command_tools(command_services, editor), UpdatePlan(), WebSearch(), *conv_tools(directory))
    return Toolbox(ToolRegistry([*own, *map(_as_tool, settings.tools)]), {"default": PLAIN}, remote)


def _as_tool(value: object) -> Tool:
    """A tool or function of the program, or by its name one of an installed package."""
    return plugin_tool(value) if isinstance(value, str) else as_tool(value)


def _command_tools(command_services: CommandServices, editor: EditorView | None) -> tuple[Tool, ...]:
    place, terminals = command_services.place, command_services.terminals
    patch = ApplyPatch(
        lambda argv, stdin, call: place.confined(argv, stdin, MAX_ANSWER_BYTES, call),
        place.approve_patch,
        place.check_changeable,
        editor,
    )
    shells = (Shell(place, patch), LocalShell(place, patch))
    files = () if editor is None else (ReadFile(editor),)
    commands = (*shells, ExecCommand(place, terminals, patch), WriteStdin(place, terminals))
    return (*commands, patch, ViewImage(place), *files)


def agent_registry_for(
    base: SessionFoundation, servers: SessionServers, command_services: CommandServices, *, starts_servers: bool
) -> AgentRegistry:
    """Who has something to say to agents: ours, the application's, and those of installed packages, in this order."""
    hidden = command_services.place.masked
    injector = SessionContextInjector(clock=base.clock)
    injector.register(CoreContextProvider())
    injector.register(CanvasContextProvider())
    injector.register(WorkspaceContextProvider(hidden=hidden, clock=base.clock))
    injector.register(SkillsContextProvider(hidden=hidden))
    for provider in base.settings.providers:
        injector.register(provider)
    return AgentRegistry(
        injector,
        servers,
        base.bus,
        base.clock,
        nursery=base.nursery,
        redactor=base.redactor,
        socket_path=base.environment.home / "internal" / f"{base.session_id}.sock",
        variables=base.environment.variables,
        keep=base.journal.keep,
        discover=installed_providers,
        starts_servers=starts_servers,
    )
