"""The definition of an ACP agent: its program, how it is held to rights, and how it gets its system part.

Parsed from a table `[acp.NAME]`; those of `presets.py` need no table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.executors.acp.own_servers import JsonServers, ServersByArgument
from tertulia.executors.command.definition import ExecutorDefinition, executor_from_wire
from tertulia.protocol.conversation_fields import SandboxMode, sandbox_from_wire
from tertulia.protocol.name_hints import name_hint
from tertulia.protocol.validation_text import explain_validation

START_S = 60.0
_LONGEST_START_S = 3600.0
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
    own_servers_by_argument: ServersByArgument | None = None
    """How they are switched off, where arguments can do that."""
    starts_own_servers: bool = False
    """Whether the agent always starts the MCP servers of its own settings, so that it needs settings without them.
    """

    server_args: tuple[str, ...] = ()
    """Arguments that name our MCP server, `{command}` and `{args}` in JSON, for an agent that does not start the
    servers of a session's parameters.
    """
    start_timeout_s: float = START_S
    """Seconds for the program to answer `initialize`, and again to start a session."""
    forgets_stopped: bool = False
    """Whether it drops a prompt from its memory that it was stopped in before its first word."""

    @property
    def hears_system(self) -> bool:
        """Whether the agent can get its system part beside the prompt."""
        return _has_place(self.meta) or (self.config is not None and _has_place(self.config[1]))


_PROGRAM = ("command", "args", "env", "env_vars", "install", "login", "version", "pid_namespace")
_WAYS = ("strategy", "on_resume_failure", "retry")
KEYS = (*_PROGRAM, *_WAYS, "sandbox", "meta", "start_timeout_s")
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
    if "start_timeout_s" in fields:
        changes["start_timeout_s"] = _seconds(f"{where}.start_timeout_s", fields["start_timeout_s"])
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


def _seconds(where: str, value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < cast(float, value) <= _LONGEST_START_S:
        raise InvalidParamsError(
            f"{where} must be seconds, more than 0 and at most {_LONGEST_START_S:g}, not {value!r:.80}"
        )
    return float(cast(float, value))


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
