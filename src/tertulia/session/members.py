"""Names the concrete members, which only this module and `assembly` do: wires, tools and context providers."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from tertulia.conversation.terms import NATIVE
from tertulia.conversation.toolbox import Toolbox
from tertulia.errors import GitError, InvalidParamsError, NoModelError, TertuliaError
from tertulia.models.catalog import PROVIDERS, ModelProvider, WireName, locate_model
from tertulia.models.choice import NO_MODEL, ModelChoice, NoModel, choose_model
from tertulia.models.scripted.script import fail
from tertulia.models.scripted.scripted_model import ScriptedModel
from tertulia.models.wire import Wire
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.sandbox.availability import require_tier
from tertulia.session.conversation_directory import ConversationDirectory
from tertulia.session.parts import SessionParts
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.plugins import plugin_tool, plugin_wire
from tertulia.session.settings.settings import Settings, configured_agents, root_backend, root_model
from tertulia.session.settings.workspace import guarded_paths_of
from tertulia.tools.command_environment import CommandEnvironment
from tertulia.tools.conv import CONV_SPECS, MERGE_SPEC, NO_AGENTS, conv_specs, conv_tools
from tertulia.tools.editor import EditorView
from tertulia.tools.files.specs import APPLY_PATCH, FILE_SPECS
from tertulia.tools.function import as_tool
from tertulia.tools.network.fetch import Fetch
from tertulia.tools.read_file import ReadFile
from tertulia.tools.registry import DeferredTool, ToolRegistry
from tertulia.tools.shell.exec_command import ExecCommand, WriteStdin
from tertulia.tools.shell.live_command import Terminals
from tertulia.tools.shell.shell import SHELL_FORMS, Bash, LocalShell, Shell
from tertulia.tools.tool import Buffers, Tool
from tertulia.tools.update_plan import UpdatePlan
from tertulia.tools.view_image import ViewImage
from tertulia.tools.web_search import WebSearch

if TYPE_CHECKING:
    from tertulia.context.project_instructions import ProjectFiles
    from tertulia.mcp.pool.session_servers import SessionServers
    from tertulia.mcp.rate_limiter import FairLimiter
    from tertulia.models.http.http_wire import HttpWire
    from tertulia.models.provider_keys import ProviderKeys
    from tertulia.policy.approvals.approval_request import RequestedAction
    from tertulia.policy.session_budget import SessionSpending
    from tertulia.session.agents.lifecycle import AgentRegistry
    from tertulia.session.checkpoints.keeper import CheckpointKeeper
    from tertulia.session.command_services import CommandServices
    from tertulia.session.mcp.host import McpHost
    from tertulia.session.remote_tools import RemoteTools
    from tertulia.tools.patch.engine import PatchEngine


def _http_wires() -> dict[WireName, type[HttpWire]]:
    from tertulia.models.http.chat import ChatWire
    from tertulia.models.http.messages import MessagesWire
    from tertulia.models.http.responses import ResponsesWire

    return {"responses": ResponsesWire, "chat": ChatWire, "messages": MessagesWire}


class ModelCatalogue:
    """Knows which wire speaks to which model."""

    def __init__(
        self, settings: Settings, environment: Environment, learned: Callable[[str], object] = lambda _: None
    ) -> None:
        """`learned` is called with every stored key that is used, so that it can be kept out of what is written."""
        self._providers = cast("Mapping[str, ModelProvider]", settings.model_providers)
        self._environment = environment
        self._stored_keys = settings.stored_keys
        self._learned = learned
        self._settings = settings

    @cached_property
    def keys(self) -> ProviderKeys:
        """Where the providers' keys are looked for."""
        from tertulia.models.provider_keys import ProviderKeys

        keys_file = self._environment.keys_file if self._stored_keys else None
        return ProviderKeys(self._environment.variables, keys_file, self._learned)

    def choose(self, model: object) -> object:
        """The session's own model where the settings name this one, or none: then a `NoModel` if there is none."""
        if not (model is None or isinstance(model, str)):
            return model
        named = None if model == NO_MODEL else model
        choice = self.explain(named)
        return NoModel(choice.why) if choice.model is None else choice.model

    def explain(self, named: str | None) -> ModelChoice:
        """Which model answers where the settings name this one, or none, and why."""
        environment = self._environment
        return choose_model(named, self._providers, environment.variables, environment.home, stored=self._stored_names)

    def _stored_names(self) -> Container[str]:
        return self.keys.stored()

    def require(self, model: object) -> None:
        """Raise NoModelError where the settings name this model, or none, and none can be found."""
        if isinstance(chosen := self.choose(model), NoModel):
            raise NoModelError(chosen.reason)

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
                from tertulia.models.local.local_wire import LocalWire

                return LocalWire(name, self._environment.home)
            case "local":
                return self.find(self.choose("local"))
            case "none" if not name:
                return self.find(self.choose(None))
            case _:
                return self._remote(model)

    def _remote(self, model: str) -> Wire:
        model = model if "/" in model or (usual := self._settings.model_provider) is None else f"{usual}/{model}"
        name, _, rest = model.partition("/")
        # What is configured or built in comes first: no package can take its place.
        if rest and name not in self._providers and name not in PROVIDERS:
            wire = plugin_wire(name, rest, self._environment.variables)
            if wire is not None:
                return wire
        at = locate_model(model, self._providers, self._environment.variables)
        provider = replace(at.provider, context_window=at.context_window)
        # Here and below: a session that asks no model over HTTP has no use for it.
        from tertulia.session.settings.network import network_access

        access = network_access(self._settings, self._environment)
        return _http_wires()[provider.wire](at.provider_name, at.model, provider, self.keys, access=access)


def require_model(settings: Settings, environment: Environment) -> None:
    """Raise NoModelError where a model would have to answer the root of a new session, and none can."""
    if root_backend(settings) == NATIVE:
        ModelCatalogue(settings, environment).require(root_model(settings))


def require_sandbox(settings: Settings) -> None:
    """Raise SandboxUnavailableError where commands of the root are wanted, and could only be refused."""
    if root_backend(settings) == NATIVE:
        require_tier(settings.sandbox_tier, settings.rights)


def _missing_model(model: str) -> Wire:
    """Raise for a model that was a Python object when the session was stored: only its name is known."""
    why = f"{model} was an object of the program that began this session, and is gone with it; name another model"
    return ScriptedModel([fail(why)], name=model, repeat=True)


def toolbox_for(parts: SessionParts) -> Toolbox:
    """All tools of a session: built-in ones, made when they are first called, then the application's."""
    own = (*_command_tools(parts), UpdatePlan(), WebSearch(), *_conv_tools(parts))
    registry = ToolRegistry([*own, *map(_as_tool, parts.settings.tools)])
    dedupe = parts.settings.on_tool_conflict == "dedupe"
    return Toolbox(registry, SHELL_FORMS, _remote_tools(parts), partial(_absence, parts), dedupe=dedupe)


def _absence(parts: SessionParts, name: str, conversation: ConversationId) -> TertuliaError | None:
    """Why an MCP server does not offer the tool of that name."""
    servers = parts.made.servers
    return None if servers is None else servers.absence(name, conversation)


def _remote_tools(parts: SessionParts) -> Callable[[ToolSpec, ConversationId], Tool]:
    @cache
    def remote_tools() -> RemoteTools:
        from tertulia.session.remote_tools import RemoteTools

        return RemoteTools(parts)

    return lambda spec, conversation: remote_tools().make(spec, conversation)


def _as_tool(value: object) -> Tool:
    """A tool or function of the program, or by its name one of an installed package."""
    return plugin_tool(value) if isinstance(value, str) else as_tool(value)


def _command_tools(parts: SessionParts) -> Iterator[DeferredTool]:
    def place() -> CommandEnvironment:
        return parts.command_services.place

    def terminals() -> Terminals:
        return parts.command_services.terminals

    buffers = parts.settings.buffers

    @cache
    def editor(buffers: Buffers) -> EditorView:
        return EditorView(place(), buffers)

    @cache
    def engine() -> PatchEngine:
        # Imported here, as the patch tool is below: most sessions change no file with it.
        from tertulia.tools.patch.engine import MAX_ANSWER_BYTES, PatchEngine

        at = place()
        made = PatchEngine(
            lambda argv, stdin, call: at.confined(argv, stdin, MAX_ANSWER_BYTES, call),
            at.approve_patch,
            at.check_changeable,
            None if buffers is None else editor(buffers),
        )
        parts.command_services.resources.add(made.read_files)
        return made

    @cache
    def patch() -> Tool:
        from tertulia.tools.patch.apply_patch import ApplyPatch

        return ApplyPatch(engine())

    yield DeferredTool(Shell.spec, lambda: Shell(place(), patch()))
    yield DeferredTool(Bash.spec, lambda: Bash(place(), patch()))
    yield DeferredTool(LocalShell.spec, lambda: LocalShell(place(), patch()))
    yield DeferredTool(ExecCommand.spec, lambda: ExecCommand(place(), terminals(), patch()))
    yield DeferredTool(WriteStdin.spec, lambda: WriteStdin(place(), terminals()))
    yield DeferredTool(APPLY_PATCH, patch)
    unsaved = None if buffers is None else partial(editor, buffers)
    for spec in FILE_SPECS:
        yield DeferredTool(spec, partial(_file_tool, spec.name, place, engine, unsaved))
    yield DeferredTool(ViewImage.spec, lambda: ViewImage(place()))
    yield DeferredTool(Fetch.spec, lambda: Fetch(place()))
    if buffers is not None:
        yield DeferredTool(ReadFile.spec, lambda: ReadFile(editor(buffers)))


def _file_tool(
    name: str,
    place: Callable[[], CommandEnvironment],
    engine: Callable[[], PatchEngine],
    editor: Callable[[], EditorView] | None,
) -> Tool:
    from tertulia.tools.files.members import make_file_tool

    return make_file_tool(name, place(), engine(), None if editor is None else editor())


def _conv_tools(parts: SessionParts) -> Iterator[DeferredTool]:
    settings = parts.settings
    agents = {agent.name: agent.description for agent in configured_agents(settings)} if settings.agents else NO_AGENTS

    @cache
    def tools() -> dict[str, Tool]:
        return {tool.spec.name: tool for tool in conv_tools(ConversationDirectory(parts), agents)}

    for spec in conv_specs(agents) if agents else CONV_SPECS:
        yield DeferredTool(spec, lambda name=spec.name: tools()[name])
    yield DeferredTool(MERGE_SPEC, partial(_merge_tool, parts))


def _merge_tool(parts: SessionParts) -> Tool:
    from tertulia.session.merging.child_merge import ChildMerger
    from tertulia.tools.conv_merge import ConvMerge

    return ConvMerge(ChildMerger(parts))


def checkpoints_for(parts: SessionParts) -> CheckpointKeeper:
    """The checkpoints of the session's workspaces. GitError where they are switched off, or cannot be had."""
    from tertulia.session.checkpoints.keeper import CheckpointKeeper
    from tertulia.session.merging.left_merges import recover_left

    if (reason := parts.no_checkpoints) is not None:
        raise GitError(reason)
    return CheckpointKeeper(parts, parts.bus, parts.conversations, partial(recover_left, parts))


def agent_registry_for(parts: SessionParts) -> AgentRegistry:
    """The context providers, in this order: built-in, the application's, and those of installed packages."""
    from tertulia.context.injector import SessionContextInjector, installed_providers
    from tertulia.context.providers.canvas import CanvasContextProvider
    from tertulia.context.providers.identity import CoreContextProvider
    from tertulia.context.providers.skills import SkillsContextProvider
    from tertulia.context.providers.workspace import WorkspaceContextProvider
    from tertulia.session.agents.lifecycle import AgentRegistry
    from tertulia.session.settings.network import network_access

    hidden, worktrees = parts.command_services.place.masked, str(parts.environment.merges.parent)
    injector = SessionContextInjector(clock=parts.clock)
    injector.register(CoreContextProvider())
    injector.register(CanvasContextProvider())
    injector.register(
        WorkspaceContextProvider(
            hidden=hidden,
            worktrees=worktrees,
            clock=parts.clock,
            rules=not parts.settings.project_instructions,
        )
    )
    injector.register(SkillsContextProvider(hidden=hidden, worktrees=worktrees))
    for provider in parts.settings.providers:
        injector.register(provider)
    return AgentRegistry(
        injector,
        parts.servers,
        parts.bus,
        parts.clock,
        nursery=parts.nursery,
        redactor=parts.redactor,
        socket_path=parts.environment.home / "internal" / f"{parts.session_id}.sock",
        variables=parts.environment.variables,
        access=network_access(parts.settings, parts.environment),
        keep=parts.journal.keep,
        discover=installed_providers,
        starts_servers=parts.starts_agent_servers,
    )


def command_services_for(parts: SessionParts) -> CommandServices:
    """The sandbox, the approvals and the terminals of commands."""
    from tertulia.session.command_services import open_command_services
    from tertulia.session.rights.explain_rights import policy_source

    services = open_command_services(
        parts.settings,
        parts.environment,
        parts.clock,
        parts.bus,
        parts.redactor,
        on_lesser=parts.sandbox_notice.publish_lesser,
        policy_source=partial(policy_source, parts),
        start=parts.nursery.start,
        commit_answer=partial(_commit_answer, parts),
        hooks=parts.hooks,
    )
    if not parts.conversations.closed:
        parts.nursery.start(services.approvals.keep_clean(), "approvals")
    return services


async def _commit_answer(parts: SessionParts, request: RequestedAction) -> None:
    """Where the task goes on after a crash, a yes is stored before it is used: a call that waited has not run."""
    conversation = parts.conversations.peek(request.conversation_id)
    if conversation is not None and conversation.terms.rights.on_restart == "continue":
        await parts.bus.flush()


def mcp_host_for(parts: SessionParts) -> McpHost:
    """The host's pool of MCP servers, or one of the session's own."""
    from tertulia.session.mcp.host import McpHost

    return parts.host or McpHost(parts.settings, parts.environment, parts.clock, parts.nursery)


def servers_for(parts: SessionParts) -> SessionServers:
    """The MCP servers of the session."""
    from tertulia.mcp.pool.session_servers import SessionServers

    return SessionServers(parts.mcp_host.pool, parts.session_id, parts.clock, parts.bus.publish)


def mcp_limiter_for(parts: SessionParts) -> FairLimiter:
    """Limits the calls to MCP servers: by the rights of the session, and by what the host has in progress."""
    from tertulia.mcp.rate_limiter import FairLimiter

    limits, is_broker = parts.settings.rights.limits, parts.settings.is_broker
    if is_broker:
        # For a broker the limit is per program: a common one could be used up by a single program.
        limits = replace(limits, mcp_concurrency=None)
    return FairLimiter(
        parts.clock,
        ceiling=limits,
        waited=parts.bus.metrics.waited,
        shared=parts.mcp_host.in_flight,
        leaves_room=is_broker,
    )


def spending_for(budget: Mapping[str, object]) -> SessionSpending:
    """Counts what the session uses of its budget."""
    from tertulia.policy.session_budget import SessionSpending, budget_from_wire

    return SessionSpending(budget_from_wire(budget))


def project_files_for(parts: SessionParts) -> ProjectFiles:
    """Reads the instructions of projects, without those that are masked."""
    from tertulia.context.project_instructions import ProjectFiles

    masks = guarded_paths_of(parts.settings, parts.environment).masks
    return ProjectFiles([mask.path for mask in masks])
