"""The definition of a command executor: its program, how it is called, what it prints. A new one needs no code.

Parsed from a table `[executors.NAME]`. `codex` and `claude` are presets below, which their tables can change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast, get_args

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.executors.executor import ResumeSettings
from tertulia.policy.shell_environment import variables_from_wire
from tertulia.protocol.conversation_fields import SandboxMode, sandbox_from_wire
from tertulia.protocol.name_hints import name_hint

OutputFormat = Literal["text", "codex-jsonl", "claude-stream-json"]
Words = tuple[str, ...]

RESERVED = "history"
"""The table of this name under `executors` is no executor: it says how much of earlier messages a prompt contains."""


class SettingsLayer(msgspec.Struct, frozen=True, kw_only=True):
    """A TOML file in an agent's home with settings that it lays over its own when an argument names the file."""

    file: str
    """The name of the file, with `{name}` for the value of the argument."""
    key: str
    """The setting that holds the system part."""
    options: Words
    """Arguments by which a user may have chosen a layer already."""


class AgentHome(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent keeps its sessions and its login, below HOME."""

    variable: str
    """The variable that names another folder."""
    folder: str
    files: Words = ()
    """The files that are copied to a temporary home: login and settings, no sessions."""
    servers: str | None = None
    """The one of these files, in TOML, that may name MCP servers of the agent's own."""
    layer: SettingsLayer | None = None


class ExecutorDefinition(msgspec.Struct, frozen=True, kw_only=True, rename={"resume_with": "resume"}):
    """One command-line agent. Words are arguments: no shell reads them.

    Its command line is `command`, `args`, the arguments for its sandbox and its system part, and then `start`, or
    `resume_with` to resume its own session. The prompt goes to its standard input.
    """

    command: Words
    args: Words = ()
    """Further arguments: a model, a profile."""
    start: Words = ()
    resume_with: Words | None = None
    """Arguments that resume its own session, with `{id}` for the session's id; None: it cannot resume."""
    output: OutputFormat = "text"
    can_ask: bool = False
    sandbox: Mapping[SandboxMode, Words] = {}
    """Arguments for each sandbox mode. A mode without an entry is refused, except danger-full-access."""
    sandbox_as_root: Mapping[SandboxMode, Words] = {}
    """Other arguments for a mode where it runs as root."""
    permission_tool: bool = False
    """Whether our MCP server has the tool by which it asks before it uses a tool of its own."""
    network: Words = ()
    """Arguments that let its commands reach the network in workspace-write; empty: they cannot."""
    no_shell: Words | None = None
    """Arguments that take its shell away; None: a task that may have no shell is refused."""
    no_search: Words = ()
    """Arguments that keep it from searching the web."""
    root: Words = ()
    """Arguments that let it write one more directory, `{root}`; empty: it cannot."""
    system: Words = ()
    """Arguments for its system part: `{file}` is a file that holds it, `{layer}` a layer of its settings, `{text}` the
    text and `{json}` the text as a JSON string; every user sees the last two in the process list. Empty: the system
    part stands before the prompt.
    """
    system_at_start: bool = False
    """Whether the system part counts only when a session starts: a changed one then stands before the prompt."""
    servers: Words = ()
    """Arguments that keep it from MCP servers other than ours; with `{name}`, once for each server in its settings.
    """
    server: Words = ()
    """Arguments that name our MCP server: `{command}` and `{args}` are JSON."""
    env: Mapping[str, str] = {}
    env_vars: Words = ()
    """Variables of our environment that it gets besides the usual harmless ones, such as those with its keys."""
    isolated_home: bool = False
    """Whether every task gets a home of its own that is removed afterwards."""
    pid_namespace: bool = True
    """Whether it runs in a PID namespace, where the system has them and its rights are not full access: then all its
    processes end with ours, however that is killed.
    """
    home: AgentHome | None = None
    resuming: ResumeSettings = ResumeSettings()
    version: Words = ("--version",)
    proved: str = ""
    """The version with which it was seen to work; empty: none was tried."""
    install: str = ""
    """The command that installs it."""
    login: str = ""
    """The command that logs in."""

    @property
    def asks_by_mode(self) -> bool:
        """Whether it can ask in some sandbox modes only: see `for_user`."""
        return self.can_ask and bool(self.sandbox_as_root)

    def for_user(self, uid: int) -> ExecutorDefinition:
        """The definition for a program that runs as this user."""
        if uid != 0 or not self.sandbox_as_root:
            return self
        # In the modes of that table it asks; `command_line` refuses the others where something has to be asked.
        return msgspec.structs.replace(self, sandbox={**self.sandbox, **self.sandbox_as_root}, can_ask=True)

    def __repr__(self) -> str:
        # Without the values of `env`, which may be secrets.
        return f"ExecutorDefinition(command={self.command!r}, env=<{', '.join(self.env)}>)"


_WORDS = (
    "command",
    "args",
    "start",
    "resume",
    "network",
    "no_shell",
    "no_search",
    "root",
    "system",
    "servers",
    "server",
    "env_vars",
    "version",
)
_TEXTS = ("install", "login")
_SWITCHES = ("can_ask", "system_at_start", "isolated_home", "pid_namespace")
_RESUMING: Mapping[str, Words] = {
    "strategy": ("auto", "transcript"),
    "on_resume_failure": ("transcript", "fail"),
    "retry": ("resume", "new_session"),
}
KEYS = (*_WORDS, *_TEXTS, *_SWITCHES, *_RESUMING, "output", "sandbox", "env")
"""The keys that a table may have."""


def executor_from_wire(
    name: str, table: Mapping[str, Any], below: ExecutorDefinition | None, *, family: str = "executors"
) -> ExecutorDefinition:
    """Parse a table over the values of a preset. InvalidParamsError names the key, but never shows values of `env`."""
    where = f"{family}.{name}"
    for key in table:
        if key not in KEYS:
            raise InvalidParamsError(f"{where} has no {key!r:.80}; {name_hint(key, sorted(KEYS))}")
    fields = {_FIELDS.get(key, key): _value(f"{where}.{key}", key, value) for key, value in table.items()}
    ways = {key: fields.pop(key) for key in _RESUMING if key in fields}
    if below is None and not fields.get("command"):
        raise InvalidParamsError(f"{where}.command is missing: the program and its first arguments, as a list")
    made = ExecutorDefinition(command=()) if below is None else below
    if "sandbox" in fields:
        made = msgspec.structs.replace(made, sandbox_as_root={})
    return msgspec.structs.replace(made, **fields, resuming=msgspec.structs.replace(made.resuming, **ways))


_FIELDS = {"resume": "resume_with"}


def _value(where: str, key: str, value: object) -> Any:
    match key:
        case "sandbox":
            return _modes(where, value)
        case "env":
            return variables_from_wire(where, value)
        case "output":
            return _one_of(where, value, get_args(OutputFormat))
        case "command":
            return _program(where, value)
        case "resume":
            return _resume(where, value)
        case _ if key in _RESUMING:
            return _one_of(where, value, _RESUMING[key])
        case _:
            return _plain(where, value) if key in (*_SWITCHES, *_TEXTS) else _words(where, value)


def _plain(where: str, value: object) -> object:
    kind, called = (bool, "true or false") if where.rpartition(".")[2] in _SWITCHES else (str, "a text")
    if not isinstance(value, kind):
        raise InvalidParamsError(f"{where} must be {called}, not {value!r:.80}")
    return value


def _program(where: str, value: object) -> Words:
    # A text is the program alone, as editors write it; its arguments have a key of their own.
    words = _words(where, [value] if isinstance(value, str) else value)
    if not words or not words[0]:
        raise InvalidParamsError(f"{where} must name a program")
    return words


def _resume(where: str, value: object) -> Words | None:
    words = _words(where, value)
    if words and not any("{id}" in word for word in words):
        raise InvalidParamsError(f"{where} must have a place for {{id}}")
    return words or None


def _words(where: str, value: object) -> Words:
    if isinstance(value, list | tuple):
        words = tuple(cast("tuple[object, ...]", value))
        if all(isinstance(word, str) and "\0" not in word for word in words):
            return cast("Words", words)
    raise InvalidParamsError(f"{where} must be a list of arguments, none of them with a NUL")


def _one_of(where: str, value: object, words: Words) -> str:
    # A value may be written with hyphens or underscores; our spelling is returned.
    spelled = {word.replace("-", "_"): word for word in words}
    word = spelled.get(value.replace("-", "_")) if isinstance(value, str) else None
    if word is None:
        raise InvalidParamsError(f"{where} must be one of {', '.join(words)}, not {value!r:.80}")
    return word


def _modes(where: str, value: object) -> dict[SandboxMode, Words]:
    if not isinstance(value, Mapping):
        raise InvalidParamsError(f"{where} must be a table: for each sandbox mode the arguments that mean it")
    modes = cast("Mapping[object, object]", value)
    return {sandbox_from_wire(mode): _words(f"{where}.{mode}", words) for mode, words in modes.items()}


NETWORK_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE")
"""Variables that an agent may need to reach its model from this network."""

CODEX = ExecutorDefinition(
    command=("codex", "exec", "--json", "--skip-git-repo-check"),
    start=("-",),
    resume_with=("resume", "{id}", "-"),
    output="codex-jsonl",
    sandbox={
        "read_only": ("--sandbox", "read-only"),
        "workspace_write": ("--sandbox", "workspace-write"),
        "danger_full_access": ("--sandbox", "danger-full-access"),
    },
    network=("-c", "sandbox_workspace_write.network_access=true"),
    no_shell=("-c", "features.shell_tool=false"),
    no_search=("-c", 'web_search="disabled"'),
    root=("--add-dir", "{root}"),
    # Codex reads instructions from no other file than its settings.
    system=("--profile", "{layer}"),
    system_at_start=True,
    # An empty table would change nothing: Codex merges it with the one in the user's file.
    servers=("-c", "mcp_servers.{name}.enabled=false"),
    # Codex need not ask about these calls: our side of the server decides about them.
    server=(
        *("-c", "mcp_servers.tertulia.command={command}", "-c", "mcp_servers.tertulia.args={args}"),
        *("-c", 'mcp_servers.tertulia.default_tools_approval_mode="approve"'),
    ),
    env_vars=("CODEX_API_KEY", "CODEX_HOME", "OPENAI_API_KEY", "OPENAI_BASE_URL", *NETWORK_VARIABLES),
    home=AgentHome(
        variable="CODEX_HOME",
        folder=".codex",
        files=("auth.json", "config.toml"),
        servers="config.toml",
        layer=SettingsLayer(file="{name}.config.toml", key="developer_instructions", options=("-p", "--profile")),
    ),
    proved="0.166.0",
    install="npm install -g @openai/codex",
    login="codex login",
)

_SANDBOXED = '{"sandbox": {"enabled": true, "autoAllowBashIfSandboxed": true, "allowUnsandboxedCommands": false}}'
"""Commands run in Claude's own sandbox or, where it has none, are denied: there is no approver to ask."""

CLAUDE = ExecutorDefinition(
    command=("claude", "-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"),
    resume_with=("--resume", "{id}"),
    output="claude-stream-json",
    sandbox={
        "read_only": ("--permission-prompts", "none", "--tools", "Read,Glob,Grep"),
        "workspace_write": (
            *("--permission-prompts", "none", "--permission-mode", "acceptEdits", "--settings", _SANDBOXED),
        ),
        "danger_full_access": ("--dangerously-skip-permissions",),
    },
    # Root is refused that one. It asks by our tool instead, and the approval policy decides. Settings of a project
    # could answer in its place, or start programs beforehand.
    sandbox_as_root={
        "danger_full_access": (
            *("--permission-prompt-tool", "mcp__tertulia__approve_own_tool", "--setting-sources", "user"),
        ),
    },
    permission_tool=True,
    no_shell=("--disallowedTools", "Bash"),
    no_search=("--disallowedTools", "WebSearch"),
    root=("--add-dir", "{root}"),
    # Without the snapshot option the agent would keep the system part of its first run.
    system=("--append-system-prompt-file", "{file}", "--system-prompt-snapshot", "off"),
    servers=("--strict-mcp-config",),
    server=(
        *("--mcp-config", '{"mcpServers": {"tertulia": {"command": {command}, "args": {args}}}}'),
        *("--allowedTools", "mcp__tertulia"),
    ),
    env_vars=(
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"),
        *("CLAUDE_CONFIG_DIR", *NETWORK_VARIABLES),
    ),
    home=AgentHome(variable="CLAUDE_CONFIG_DIR", folder=".claude", files=(".credentials.json", "settings.json")),
    proved="2.1.325",
    install="npm install -g @anthropic-ai/claude-code",
    login="claude auth login",
)

PRESETS: Mapping[str, ExecutorDefinition] = {"codex": CODEX, "claude": CLAUDE}
COMMAND_PREFIX = "command:"
"""The prefix of every executor that is no preset, so that a user's name never replaces a built-in one."""


def check_backend_name(family: str, name: str) -> None:
    """Refuse a name that cannot be part of a backend's name; InvalidParamsError names the table."""
    if not name or not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise InvalidParamsError(f"{family}.{name:.80}: a name has letters, digits, `-` and `_` only")


def executors_from_wire(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, ExecutorDefinition]:
    """All command executors by backend name: the presets as changed by their tables, and the user's own."""
    agents = {name: executor_from_wire(name, tables.get(name, {}), preset) for name, preset in PRESETS.items()}
    for name, table in tables.items():
        if name in PRESETS or name == RESERVED:
            continue
        check_backend_name("executors", name)
        agents[COMMAND_PREFIX + name] = executor_from_wire(name, table, None)
    return agents
