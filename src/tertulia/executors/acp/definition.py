"""The definition of an ACP agent: its program, how it is held to rights, and how it gets its system part.

Parsed from a table `[acp.NAME]`; the presets below need no table.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from tertulia.errors import InvalidParamsError, UnsupportedByBackendError
from tertulia.executors.command.definition import (
    CLAUDE,
    CODEX,
    NETWORK_VARIABLES,
    ExecutorDefinition,
    check_backend_name,
    executor_from_wire,
)
from tertulia.policy.plain_file import NotPlainFileError, read_plain_file
from tertulia.protocol.conversation_fields import SandboxMode, sandbox_from_wire
from tertulia.protocol.name_hints import name_hint
from tertulia.protocol.validation_text import explain_json, explain_validation

MAX_SETTINGS_BYTES = 1024 * 1024
# An unclosed string or comment matches to the end, so it is scanned once. The JSON parser reports it.
_STRING = r'"(?:[^"\\]+|\\.)*"?'
_COMMENT = re.compile(rf"//[^\r\n]*|/\*.*?\*/|({_STRING}|/\*.*)", re.DOTALL)
_COMMA = re.compile(rf",(?=\s*[}}\]])|({_STRING})", re.DOTALL)


class JsonServers(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent keeps its settings in JSON, and how its own MCP servers are switched off."""

    variable: str
    """The variable with settings in JSON that override the files."""
    table: str
    """The key of the table that names MCP servers."""
    folder: str
    """The agent's folder in the user's configuration directory."""
    project: str
    """The folder with a project's settings; the files may also lie beside it."""
    files: tuple[str, ...]
    user_files: tuple[str, ...] = ()
    """Files that are read in the user's configuration directory only."""

    def switched_off(self, environment: Mapping[str, str], cwd: str) -> dict[str, str]:
        """The variable that switches off every MCP server of the agent's own settings; empty where they name none.

        UnsupportedByBackendError names a file that cannot be parsed. Reads files, so call it in a thread.
        """
        names = [name for path in self._paths(environment, cwd) for name in _as_table(_read(path).get(self.table))]
        if not names:
            return {}
        # Also one with the name of ours: ours is added to the session later, whatever the settings say of that name.
        off = {name: {"enabled": False} for name in names}
        settings = _parsed(environment.get(self.variable, ""), self.variable)
        return {self.variable: json.dumps({**settings, self.table: {**_as_table(settings.get(self.table)), **off}})}

    def _paths(self, environment: Mapping[str, str], cwd: str) -> Iterator[str]:
        home = environment.get("HOME", "")
        user = os.path.join(environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), self.folder)
        yield from (os.path.join(user, file) for file in self.user_files)
        places = [user]
        directory, above = os.path.realpath(cwd), ""
        while directory != above:
            places += [directory, os.path.join(directory, self.project)]
            directory, above = os.path.dirname(directory), directory
        places.append(os.path.join(home, self.project))
        for place in places:
            for file in self.files:
                yield os.path.join(place, file)


def _read(path: str) -> dict[str, Any]:
    try:
        raw = read_plain_file(path, MAX_SETTINGS_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise _refusal(path, f"cannot be read: {error.strerror}") from None
    except NotPlainFileError:
        raise _refusal(path, "is not a file") from None
    if len(raw) > MAX_SETTINGS_BYTES:
        raise _refusal(path, f"is larger than {MAX_SETTINGS_BYTES:,} bytes")
    return _parsed(raw.decode("utf-8-sig", "replace"), path)


def _parsed(text: str, where: str) -> dict[str, Any]:
    """Parse JSON that may have comments and trailing commas."""
    text = _COMMENT.sub(lambda match: match[1] or " ", text)
    text = _COMMA.sub(lambda match: match[1] or "", text)
    try:
        return _as_table(json.loads(text)) if text.strip() else {}
    except json.JSONDecodeError as error:
        raise _refusal(
            where, f"is not JSON (at line {error.lineno}, column {error.colno}): {explain_json(error)}"
        ) from None
    except (ValueError, RecursionError):
        raise _refusal(where, "is not JSON that can be understood") from None


def _refusal(where: str, why: str) -> UnsupportedByBackendError:
    return UnsupportedByBackendError(
        f"{where} {why}, so the agent cannot be kept from MCP servers that it may name; correct or remove it"
    )


def _as_table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


TEXT_PLACEHOLDER = "{text}"
"""The placeholder for the system part in a template."""
Template = Mapping[str, Any]


class AcpSandboxMode(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent's own sandbox is set for one sandbox mode."""

    mode: str | None = None
    """The id of a session mode of the agent."""
    meta: Template = {}
    """Merged into the `_meta` of session/new."""


class AcpDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """One agent that speaks ACP over its standard input and output."""

    program: ExecutorDefinition
    """Command, environment and home of the program, and how it resumes its own sessions."""
    sandbox: Mapping[SandboxMode, AcpSandboxMode] = {}
    """How the agent is held to each sandbox mode. A mode without an entry is refused, except danger-full-access.
    """
    meta: Template = {}
    """The `_meta` of session/new, with `{text}` for the system part."""
    config: tuple[str, Template] | None = None
    """A variable from which the agent reads settings as JSON, and these settings, with `{text}` for the system part."""
    own_servers: JsonServers | None = None
    """How MCP servers of the agent's own settings are switched off, where a variable can do that."""
    starts_own_servers: bool = False
    """Whether the agent always starts the MCP servers of its own settings, so that it needs settings without them.
    """

    forgets_stopped: bool = False
    """Whether it drops a prompt from its memory that it was stopped in before its first word."""

    @property
    def hears_system(self) -> bool:
        """Whether the agent can get its system part beside the prompt."""
        return _has_place(self.meta) or (self.config is not None and _has_place(self.config[1]))


_PROGRAM = ("command", "args", "env", "env_vars", "install", "login", "version", "pid_namespace")
_WAYS = ("strategy", "on_resume_failure", "retry")
KEYS = (*_PROGRAM, *_WAYS, "sandbox", "meta")
"""The keys that a table may have."""


def acp_from_wire(name: str, table: object, below: AcpDefinition | None) -> AcpDefinition:
    """Parse a table over the values of a preset. InvalidParamsError names the key, but never shows values of `env`."""
    where = f"acp.{name}"
    fields = _table(where, table)
    for key in fields:
        if key not in KEYS:
            raise InvalidParamsError(f"{where} has no {key!r:.80}; {name_hint(key, sorted(KEYS))}")
    of_program = {key: value for key, value in fields.items() if key in (*_PROGRAM, *_WAYS)}
    if below is not None and isinstance(fields.get("env"), Mapping):
        of_program["env"] = {**below.program.env, **fields["env"]}
    program = executor_from_wire(name, of_program, None if below is None else below.program, family="acp")
    made = AcpDefinition(program=program) if below is None else msgspec.structs.replace(below, program=program)
    changes: dict[str, Any] = {}
    if "meta" in fields:
        changes["meta"] = _table(f"{where}.meta", fields["meta"])
    if "sandbox" in fields:
        changes["sandbox"] = _sandbox_modes(f"{where}.sandbox", fields["sandbox"])
    return msgspec.structs.replace(made, **changes)


def fill_template(template: object, text: str) -> Any:
    """The template with the text for its placeholders; members that become an empty text are left out."""
    match template:
        case str():
            return template.replace(TEXT_PLACEHOLDER, text)
        case Mapping():
            members = cast("Mapping[str, Any]", template)
            return {key: fill_template(value, text) for key, value in members.items() if text or not _has_place(value)}
        case list() | tuple():
            return [fill_template(value, text) for value in cast("list[Any]", template)]
        case _:
            return template


def merge_tables(below: Template, above: Template) -> dict[str, Any]:
    """Merge two tables, level by level; where both have a value, the second wins."""
    made = dict(below)
    for key, value in above.items():
        former = made.get(key)
        both = isinstance(former, Mapping) and isinstance(value, Mapping)
        made[key] = merge_tables(cast(Template, former), cast(Template, value)) if both else value
    return made


def _has_place(template: object) -> bool:
    match template:
        case str():
            return TEXT_PLACEHOLDER in template
        case Mapping():
            return any(map(_has_place, cast("Mapping[str, Any]", template).values()))
        case list() | tuple():
            return any(map(_has_place, cast("list[Any]", template)))
        case _:
            return False


def _table(where: str, value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidParamsError(f"{where} must be a table")
    return dict(cast("Mapping[str, Any]", value))


def _sandbox_modes(where: str, value: object) -> dict[SandboxMode, AcpSandboxMode]:
    modes: dict[SandboxMode, AcpSandboxMode] = {}
    for mode, entry in _table(where, value).items():
        try:
            modes[sandbox_from_wire(mode)] = msgspec.convert(entry, AcpSandboxMode)
        except msgspec.ValidationError as error:
            problem = explain_validation(error, AcpSandboxMode)
            raise InvalidParamsError(
                f"{where}.{mode} must be a table of `mode`, a text, and `meta`: {problem}"
            ) from None
    return modes


ACP_PREFIX = "acp:"
"""The prefix of the name of every ACP backend."""
_ONLY_OURS = ("--allowed-mcp-server-names", "tertulia")
_OPENAI = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL")


def _program(command: tuple[str, ...], install: str, *variables: str, login: str = "") -> ExecutorDefinition:
    return ExecutorDefinition(
        command=command, install=install, login=login, env_vars=(*variables, *NETWORK_VARIABLES), can_ask=True
    )


def _adapter(agent: ExecutorDefinition, command: str, path_variable: str, login: str) -> ExecutorDefinition:
    """The program by which an agent that does not speak ACP itself does; the variable names the agent's own program."""
    return ExecutorDefinition(
        command=(command,),
        env_vars=(*agent.env_vars, path_variable),
        home=agent.home,
        can_ask=True,
        install=f"npm install -g @agentclientprotocol/{command}",
        login=login,
    )


# Version 2.6.0. It asks before it leaves its sandbox.
_CODEX = AcpDefinition(
    program=_adapter(CODEX, "codex-acp", "CODEX_PATH", login="codex login"),
    sandbox={
        "read_only": AcpSandboxMode(mode="read-only"),
        "workspace_write": AcpSandboxMode(mode="workspace-write"),
        "danger_full_access": AcpSandboxMode(mode="agent-full-access"),
    },
    config=("CODEX_CONFIG", {"developer_instructions": "{text}"}),
    # Its MCP servers start before its first session, whatever the session's parameters say.
    starts_own_servers=True,
)

_CLAUDE_SANDBOX = {"enabled": True, "autoAllowBashIfSandboxed": True, "allowUnsandboxedCommands": False}

# Version 0.99.1. It asks before it changes anything; commands run in its own sandbox.
_CLAUDE = AcpDefinition(
    program=_adapter(CLAUDE, "claude-agent-acp", "CLAUDE_CODE_EXECUTABLE", login="claude auth login"),
    sandbox={
        "read_only": AcpSandboxMode(
            mode="default", meta={"claudeCode": {"options": {"tools": ["Read", "Glob", "Grep"]}}}
        ),
        "workspace_write": AcpSandboxMode(
            mode="default", meta={"claudeCode": {"options": {"sandbox": _CLAUDE_SANDBOX}}}
        ),
        "danger_full_access": AcpSandboxMode(mode="default"),
    },
    meta={"systemPrompt": {"append": "{text}"}, "claudeCode": {"options": {"strictMcpConfig": True}}},
)

ACP_PRESETS: Mapping[str, AcpDefinition] = {
    "codex": _CODEX,
    "claude": _CLAUDE,
    # Version 1.18.33.
    "opencode": AcpDefinition(
        program=_program(("opencode", "acp"), "npm install -g opencode-ai", *_OPENAI, login="opencode auth login"),
        own_servers=JsonServers(
            variable="OPENCODE_CONFIG_CONTENT", table="mcp", folder="opencode", project=".opencode",
            files=("opencode.json", "opencode.jsonc"), user_files=("config.json",),
        ),
    ),
    # Version 0.61.0. In an untrusted directory it starts no MCP server, not even ours, so the directory is declared
    # trusted; arguments keep it from other servers.
    "gemini": AcpDefinition(
        program=replace(
            _program(
                ("gemini", "--acp", *_ONLY_OURS), "npm install -g @google/gemini-cli", "GEMINI_API_KEY",
                "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GEMINI_MODEL", login="gemini",
            ),
            env={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
        ),
        forgets_stopped=True,
    ),
    # Version 0.24.4.
    "qwen": AcpDefinition(
        program=_program(("qwen", "--acp", *_ONLY_OURS), "npm install -g @qwen-code/qwen-code", *_OPENAI, login="qwen")
    ),
    # Versions 0.10 and 3.0: written from their documentation only.
    "fast-agent": AcpDefinition(program=_program(("fast-agent-acp",), "pip install fast-agent-acp", *_OPENAI)),
    "vibe": AcpDefinition(program=_program(("vibe-acp",), "pip install mistral-vibe", "MISTRAL_API_KEY")),
}  # fmt: skip


UNTESTED = frozenset({"acp:fast-agent", "acp:vibe"})
"""Presets that no test of ours has run."""


def acp_agents_from_wire(tables: Mapping[str, Any]) -> dict[str, AcpDefinition]:
    """All ACP agents by the names of their backends: the presets as changed by their tables, and the user's own."""
    agents = {
        ACP_PREFIX + name: acp_from_wire(name, tables.get(name, {}), preset) for name, preset in ACP_PRESETS.items()
    }
    for name, table in tables.items():
        if name in ACP_PRESETS:
            continue
        check_backend_name("acp", name)
        agents[ACP_PREFIX + name] = acp_from_wire(name, table, None)
    return agents
