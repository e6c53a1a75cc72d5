"""The definition of a command executor: a program, how it is called, what it prints. A new one needs no code.

It is parsed from a table `[executors.NAME]`. `codex` and `claude` are presets below, which their tables change.
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
"""The table of that name under `executors` is no executor: it says how much is told of earlier messages."""


class SettingsLayer(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that an agent lays over its own when an argument names them: a TOML file in its home."""

    file: str
    """What it is called, with `{name}` for what the argument says."""
    key: str
    """The setting that is the system part."""
    options: Words
    """Arguments by which a user may have chosen such settings."""


class AgentHome(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent keeps its sessions and its login, below HOME."""

    variable: str
    """The variable that names another place."""
    folder: str
    files: Words = ()
    """What a temporary home gets a copy of: login and settings, nothing that was said."""
    servers: str | None = None
    """Of these the file, in TOML, that may name MCP servers of the agent's own."""
    layer: SettingsLayer | None = None


class ExecutorDefinition(msgspec.Struct, frozen=True, kw_only=True, rename={"resume_with": "resume"}):
    """One command-line agent. Words are arguments: no shell reads them.

    It is called with `command`, `args`, the words for its sandbox and its system part, and then `start`, or
    `resume_with` to go on with its own session. The prompt goes to its standard input.
    """

    command: Words
    args: Words = ()
    """More of it: a model, a profile."""
    start: Words = ()
    resume_with: Words | None = None
    """With `{id}` for its own id; None: it cannot."""
    output: OutputFormat = "text"
    can_ask: bool = False
    sandbox: Mapping[SandboxMode, Words] = {}
    """Its own words for each mode. Where it has none it is refused, but under danger-full-access."""
    network: Words = ()
    """What lets its commands reach the network in workspace-write; none: they do not."""
    no_shell: Words | None = None
    """What takes its shell away; None: where that is needed it is refused."""
    no_search: Words = ()
    """What keeps it from searching the web."""
    root: Words = ()
    """What lets it write one more directory, `{root}`; none: it does not."""
    system: Words = ()
    """How it is told its system part: `{file}`, which holds it, `{layer}` of its settings, `{text}`, or `{json}` for a
    JSON string; the list of processes shows the last two to every user. None: before the prompt.
    """
    hears_once: bool = False
    """Whether what stands beside the prompt counts only when its session begins: a change stands before the prompt."""
    servers: Words = ()
    """What keeps it from MCP servers that are not ours; with `{name}`, once for each that its settings name."""
    server: Words = ()
    """How it is told of ours: `{command}` and `{args}` are JSON."""
    env: Mapping[str, str] = {}
    env_vars: Words = ()
    """Variables of ours that it gets besides the usual harmless ones: those with its keys."""
    isolated_home: bool = False
    """Whether every task has a home of its own, gone afterwards."""
    pid_namespace: bool = True
    """Whether it runs among its own processes alone, where that can be had and its rights are not full access: then
    all of them end with us, whatever is killed."""
    home: AgentHome | None = None
    resuming: ResumeSettings = ResumeSettings()
    version: Words = ("--version",)
    install: str = ""
    """How to get it, as a command."""
    login: str = ""
    """How to log in, as a command."""

    def __repr__(self) -> str:
        # Not the values of `env`: they may be secrets.
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
_SWITCHES = ("can_ask", "hears_once", "isolated_home", "pid_namespace")
_RESUMING: Mapping[str, Words] = {
    "strategy": ("auto", "transcript"),
    "on_resume_failure": ("transcript", "fail"),
    "retry": ("resume", "new_session"),
}
KEYS = (*_WORDS, *_TEXTS, *_SWITCHES, *_RESUMING, "output", "sandbox", "env")
"""What a table may say."""


def executor_from_wire(
    name: str, table: Mapping[str, Any], below: ExecutorDefinition | None, *, family: str = "executors"
) -> ExecutorDefinition:
    """Parse one table, over what a preset says. InvalidParams names the key; values of `env` are never shown."""
    where = f"{family}.{name}"
    for key in table:
        if key not in KEYS:
            raise InvalidParamsError(f"{where} has no {key!r:.80}; {name_hint(key, sorted(KEYS))}")
    fields = {_FIELDS.get(key, key): _value(f"{where}.{key}", key, value) for key, value in table.items()}
    ways = {key: fields.pop(key) for key in _RESUMING if key in fields}
    if below is None and not fields.get("command"):
        raise InvalidParamsError(f"{where}.command is missing: the program and its first arguments, as a list")
    made = ExecutorDefinition(command=()) if below is None else below
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
    # A text is the program alone, as editors write it, with the arguments beside it.
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
    # A word may be spelled with either kind of line, and is kept in our spelling.
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
"""What an agent needs to reach its model from where we are."""

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
    # It reads no file for that but its settings.
    system=("--profile", "{layer}"),
    hears_once=True,
    # An empty table would not do: it is merged with the one in the user's file.
    servers=("-c", "mcp_servers.{name}.enabled=false"),
    # What may be called is asked at our side of it.
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
    install="npm install -g @openai/codex",
    login="codex login",
)

_SANDBOXED = '{"sandbox": {"enabled": true, "autoAllowBashIfSandboxed": true, "allowUnsandboxedCommands": false}}'
"""Commands run in Claude's own sandbox or, where it has none, are denied: there is no approver."""

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
    no_shell=("--disallowedTools", "Bash"),
    no_search=("--disallowedTools", "WebSearch"),
    root=("--add-dir", "{root}"),
    # Otherwise the agent would keep what its first run was told.
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
    install="npm install -g @anthropic-ai/claude-code",
    login="claude auth login",
)

PRESETS: Mapping[str, ExecutorDefinition] = {"codex": CODEX, "claude": CLAUDE}
COMMAND_PREFIX = "command:"
"""The prefix of every other one, so that no name of a user's replaces a built-in one."""


def check_backend_name(family: str, name: str) -> None:
    """Refuse a name that cannot be part of a backend's; InvalidParams names the table."""
    if not name or not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise InvalidParamsError(f"{family}.{name:.80}: a name has letters, digits, `-` and `_` only")


def executors_from_wire(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, ExecutorDefinition]:
    """All that there are, by backend: the presets as their tables change them, and the user's own."""
    agents = {name: executor_from_wire(name, tables.get(name, {}), preset) for name, preset in PRESETS.items()}
    for name, table in tables.items():
        if name in PRESETS or name == RESERVED:
            continue
        check_backend_name("executors", name)
        agents[COMMAND_PREFIX + name] = executor_from_wire(name, table, None)
    return agents
