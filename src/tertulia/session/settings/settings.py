"""The settings of a session, and where each came from. The only module that reads the environment.

Later wins: defaults, the user's file, the environment, `-c`, flags. A project's file comes after the user's file and
can only take away from it; what the user says on the command line holds against both.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict, force_setattr, replace

from tertulia.context.provider import NamedProvider
from tertulia.errors import InvalidParamsError
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.config.project_server import ProjectServer
from tertulia.mcp.view import NamedView
from tertulia.models.catalog import ModelPrice, ModelProvider
from tertulia.models.wire import Wire
from tertulia.policy.approval_policy import ON_REQUEST, ApprovalName, ApprovalPolicy
from tertulia.policy.host_rules import NetworkRight
from tertulia.policy.limits import Limits
from tertulia.policy.orders import SANDBOX_ORDER
from tertulia.policy.rights import TOP, Rights, parse_right
from tertulia.protocol.conversation_fields import (
    RIGHT_FIELDS,
    USUAL_RIGHTS,
    OnRestart,
    ReasoningEffort,
    SandboxName,
    ShellMode,
    ToolProfile,
    Visibility,
    sandbox_from_wire,
)
from tertulia.protocol.name_hints import name_hint
from tertulia.protocol.storage import Full, StorageName, StoragePolicy
from tertulia.session.settings.conversation_fields import AgentTable
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.layers import SettingPlaces
from tertulia.session.settings.values import parse_setting
from tertulia.tools.tool import Buffers, Tool

if TYPE_CHECKING:
    from tertulia.session.settings.agent_table import ConfiguredAgents

Table = Mapping[str, Any]
_log = logging.getLogger(__name__)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a session can be told, named as in config.toml. Instructions are not: they belong to conversations.

    Values may be given as objects or as clients spell them; they are checked and parsed when the settings are
    made. Rights are read through `rights()` and `defaults()`.
    """

    model: str | Wire | None = None
    """The model as `provider/model`, or a wire."""
    model_provider: str | None = None
    """The provider of models that are named without one."""
    fallback_models: Sequence[str] = ()
    """Models that answer instead, in this order, where one has finally failed."""
    model_providers: Mapping[str, ModelProvider | Table] = {}
    reasoning_effort: ReasoningEffort | None = None
    """The reasoning effort of models; None: that of the provider's table, or of the model."""
    temperature: float | None = None
    """The sampling temperature of models, from 0 to 2."""
    max_output_tokens: int | None = None
    """The most tokens of one answer of a model."""
    proxy: Table | None = None
    """How models and HTTP MCP servers are reached: https, http, no_proxy, loopback. None: as HTTPS_PROXY and so on."""
    ca_file: str | None = None
    """A file with certificates that are trusted besides the system's; None: that of SSL_CERT_FILE."""
    ca_dir: str | None = None  # likewise a folder, or several with colons between them; None: SSL_CERT_DIR
    budget: Table | None = None
    """How many tokens and US dollars all conversations of a session may use; see `policy/session_budget.py`."""
    approval_policy: ApprovalPolicy | ApprovalName | Table = ON_REQUEST
    """When a person is asked."""
    sandbox: SandboxName = "workspace_write"
    """How commands are confined at most."""
    begins_in: SandboxName | None = None
    """The sandbox that conversations begin in, where it is less than `sandbox`, which they may be set to."""
    network: NetworkRight | Table = False
    """Which hosts commands in the sandbox reach: none, all, or `{"allow": [...], "deny": [...]}`."""
    allow_git: bool = False
    """Whether single `git add`, `commit`, `branch` and `tag` are run for a conversation, in its own repository."""
    writable_roots: Sequence[str] | None = None
    """Absolute directories; None: wherever the sandbox mode allows. Links in them are followed once, now."""
    storage_policy: StoragePolicy | StorageName | Table = Full()
    """What of conversations may be written down."""
    project_instructions: bool = False
    """Whether conversations are told what `AGENTS.md` files say. Settings loaded from files begin with True."""
    mcp_servers: Mapping[str, ServerDefinition | Table] = {}
    """Those of the user; see `mcp/config/server_table.py`."""
    mcp_views: Mapping[str, NamedView | Table] = {}
    """What others may see of them, by name."""
    project_servers: Sequence[ProjectServer] = ()
    """Those that a project's files define, as written; `session/mcp/configured_servers.py` says which may start."""
    limits: Limits | Table = Limits()
    """What a session allows at most, and what a conversation gets that asks for nothing else."""
    shell_environment: Table = {}
    """Which variables commands get; see `policy/shell_environment.py`."""
    masks: Table = {}
    """`add`: more files and directories that commands see as empty; `unmask`: usual ones that they may see."""
    allow_home_workspace: bool = False
    """Whether commands may write a workspace that is the user's home, or has it inside."""
    sandbox_tier: Literal["auto", "bubblewrap", "landlock", "seatbelt"] = "auto"
    """What confines commands; `auto` is bubblewrap, or landlock where that does not work, and a warning says so."""
    retention: Table = {}
    """How long sessions are kept; see `rollout/sweep/retention.py`."""
    durability: Literal["normal", "full"] = "normal"
    """What a record survives once it is acknowledged: the death of the process, or of the machine as well."""
    notify: Sequence[str] | Table = ()
    """What is told of ended tasks and of questions: a program, or a table; see `session/notifications`."""
    hooks: Mapping[str, Table] = {}
    """Programs and functions that are asked about tool calls, tasks and approvals, by name; see docs/hooks.md."""
    project_hooks: Sequence[Any] = ()  # those that a project's files define, as written
    executors: Mapping[str, Table] = {}
    """Command-line agents that can do a conversation's work, by name."""
    acp: Mapping[str, Table] = {}
    """The ACP agents, by their names."""
    agents: Mapping[str, AgentTable | Table] = {}
    """Agents by name: what a conversation is opened with that is one. See docs/agents.md."""
    agent: str | None = None
    """The one of them that the root conversation is; None: it is none."""
    providers: Sequence[NamedProvider] = ()
    """The context providers of its agents."""
    tools: Sequence[Tool | Callable[..., Any] | str] = ()
    """Functions that every conversation can call: `@tertulia.tool`, plain typed ones, or by name those of packages."""
    buffers: Buffers | None = None
    """What the user's editor has of files, where there is one; see `tools/editor.py`."""
    include_plan_tool: bool | None = None
    """False takes it from every conversation; True gives it to each that does not decline."""
    include_apply_patch_tool: bool | None = None
    include_conv_tools: bool | None = None
    tools_web_search_request: bool | None = None
    include_fetch_tool: bool | None = None
    shell_mode: ShellMode | None = None
    """The form of shell that conversations get; `none` takes the shell from all of them."""
    tool_profile: ToolProfile | None = None
    visibility: Visibility = "session"
    on_restart: OnRestart | None = None
    """What becomes of tasks that a crash cut; None: they are closed, unless a conversation asks for more."""
    on_tool_conflict: Literal["error", "skip", "dedupe"] = "error"
    slots: int = 1
    """How many tasks of the session may run at once, each in a conversation of its own."""
    max_running_tasks: int | None = None  # of all sessions of a host at once; None: as many as their slots allow
    checkpoints: bool | Table = False  # whether files are recorded so that tasks can be undone; see docs/undo.md
    close_timeout_s: float = 10.0
    approval_timeout_s: float = 300.0
    approval_ttl_s: float | None = None
    """How long a grant holds whose answer does not say; None: as long as its scope."""
    project_grant_ttl_s: float = 0.0
    """How long a yes for the project is kept whose answer does not say. 0: none is offered, and none that was given
    counts. Settings that are loaded from the user's files begin with 30 days."""
    model_prices: Mapping[str, ModelPrice | Table] = {}  # by `provider/model`, see `models/catalog.py`
    stored_keys: bool = False
    """Whether keys that `tertulia login` keeps are used where the environment has none. Settings that are loaded from
    the user's files begin with True."""
    session_sockets: bool = False  # whether other programs reach the session; loaded settings begin with True
    tool_timeout_s: float = 300.0
    cwd: str | None = None
    """Where conversations work; None: where the process was started."""
    unattended: bool = False
    """No person is at this session: models are told so, and what would have to be asked is refused, unless a client
    attends or a grant covers it."""
    telemetry: Table = {}
    """Where traces are sent, and whether with texts; see `session/tracing/telemetry.py`."""
    tui: Table = {}
    """How the terminal looks and which keys it knows; see `terminal_table.py`."""
    is_broker: bool = False
    """Each conversation stands for a program that shares the MCP servers: it has a share of them, and no workspace."""
    sources: Mapping[str, str] = {}  # by the name of a setting: where it was read, for `rights/explain`

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            force_setattr(self, name, parse_setting(name, value))
        if self.model_provider is not None and (self.model is None or isinstance(self.model, str)):
            # Imported here: most settings name provider and model in one.
            from tertulia.models.provider_spelling import with_provider

            force_setattr(self, "model", with_provider(self.model, self.model_provider))

    @classmethod
    def load(cls, cwd: str | os.PathLike[str] | None = None, **changes: Any) -> Settings:
        """The settings that the command line would have: `Settings()` itself reads no file.

        Reads the user's `config.toml`, the files of the project that `cwd` lies in, which may only narrow, and the
        variables that the command line reads. What was refused of a project's file is logged.

        Args:
            cwd: Where conversations work; None: where the process was started.
            changes: Settings that take the place of what was read, by the names of the fields of `Settings`.

        Returns:
            Settings to start a session with.

        Raises:
            InvalidParamsError: A file, a variable or a change cannot be used; it says which and why.
        """
        for name in changes:
            if name not in cls.__struct_fields__:
                raise InvalidParamsError(f"there is no setting {name!r:.80}; {name_hint(name, cls.__struct_fields__)}")
        loaded = load_settings(cwd=Path(cwd or "."))
        for warning in loaded.warnings:
            _log.warning("%s", warning)
        return replace(loaded.settings, **changes)

    @property
    def names_network(self) -> bool:
        """Whether they say how other hosts are reached, see `network.py`."""
        providers = cast("Mapping[str, ModelProvider]", self.model_providers).values()
        own = any(provider.ca_file is not None for provider in providers)
        return own or (self.proxy, self.ca_file, self.ca_dir) != (None, None, None)

    @property
    def rights(self) -> Rights:
        """The ceiling: the most that a conversation of the session gets."""
        return replace(TOP, **{right: _right(right, getattr(self, name)) for right, name in _RIGHTS.items()})

    @property
    def defaults(self) -> Rights:
        """The rights of a conversation that asks for nothing: the ceiling, but some only where they were set."""
        rights = replace(self.rights, **{name: v for name, v in USUAL_RIGHTS.items() if getattr(self, name) is None})
        if self.begins_in is None:
            return rights
        return replace(rights, sandbox=SANDBOX_ORDER.meet(rights.sandbox, sandbox_from_wire(self.begins_in)))

    def __repr__(self) -> str:
        values = (item for item in asdict(self).items() if item[0] != "sources" and item[1] not in ({}, (), None))
        return f"Settings({', '.join(f'{name}={_short_repr(value)}' for name, value in values)})"


_RIGHTS = {right: row.name for right, row in RIGHT_FIELDS.items() if row.setting is not None}


def _right(right: str, value: object) -> Any:
    """What a parsed setting allows; one that is not set takes nothing away."""
    return getattr(TOP, right) if value is None else parse_right(right, value)


def _short_repr(value: Any) -> str:
    # Tables and lists may hold secrets (the environment of an MCP server): what they hold is not shown.
    match value:
        case dict():
            return f"<{', '.join(cast('dict[str, Any]', value))}>"
        case tuple():
            return f"<{len(cast('tuple[Any, ...]', value))}>"
        case _:
            return repr(value)


def configured_agents(settings: Settings) -> ConfiguredAgents:
    """The agents that are set up."""
    # Loaded where one is named.
    from tertulia.session.settings.agent_table import ConfiguredAgents

    return ConfiguredAgents(settings.agents)


def root_model(settings: Settings) -> str | Wire | None:
    """The model of the root conversation: of the agent that it is, or the session's."""
    if settings.agent is None:
        return settings.model
    model = configured_agents(settings).find(settings.agent).spec.model
    return settings.model if model is UNSET else model


def root_backend(settings: Settings) -> str:
    """Who does the tasks of the root conversation of a new session."""
    backend = UNSET if settings.agent is None else configured_agents(settings).find(settings.agent).spec.backend
    return backend if isinstance(backend, str) else "native"


class LoadedSettings(msgspec.Struct, frozen=True):
    """Settings read from all their places."""

    settings: Settings
    provenance: dict[str, str]
    """By dotted name: `default`, a file, `environment NAME`, `-c`, or `flag --name`."""
    warnings: list[str]
    environment: Environment


def current_environment() -> Environment:
    """The surroundings of this process, now."""
    return Environment.read(os.environ)


def load_settings(
    *,
    cwd: Path,
    flags: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    mcp: bool = True,
) -> LoadedSettings:
    """Read every place once. Flags go by the names of settings; one that is None was not given. Not `mcp`: no server.

    Raises InvalidParams with the file, the key and what was expected. Creates nothing.
    """
    environment = Environment.read(os.environ if environ is None else environ)
    cwd = Path(os.path.realpath(cwd))
    if not cwd.is_dir():
        raise InvalidParamsError(f"{cwd} is not a directory")
    _check_home(environment)
    places = SettingPlaces(cwd, environment, ceiling=lambda values: Settings(**values).rights)
    layers = places.read(flags or {}, overrides)
    if not mcp:
        for name in ("mcp_servers", "project_servers"):
            layers.clear(name, "flag --no-mcp")
    # Imported here: a program may make its settings by itself.
    from tertulia.policy.approvals.project_grants import PROJECT_GRANT_TTL_S

    layers.values.setdefault("cwd", str(cwd))
    layers.values.setdefault("project_grant_ttl_s", PROJECT_GRANT_TTL_S)
    for name in ("checkpoints", "project_instructions", "session_sockets", "stored_keys"):
        layers.values.setdefault(name, True)
    sources = layers.provenance(tuple(name for name in Settings.__struct_fields__ if name != "sources"))
    return LoadedSettings(Settings(**layers.values, sources=layers.sources), sources, places.warnings, environment)


def _check_home(environment: Environment) -> None:
    """Refuse a place for our data that cannot be a directory, before anything is kept there."""
    nearest = next(place for place in (environment.home, *environment.home.parents) if place.exists())
    if not nearest.is_dir():
        named = " (TERTULIA_HOME names it)" if environment.variables.get("TERTULIA_HOME") else ""
        raise InvalidParamsError(
            f"{environment.home}{named} cannot hold sessions: {nearest} is a file; set TERTULIA_HOME to a directory, "
            "which need not exist yet"
        )
