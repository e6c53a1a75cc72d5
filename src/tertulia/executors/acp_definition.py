"""What an ACP agent is, as data: its program, and how it is held to rights and told what it should know.

One is described by a table `[acp.NAME]`; those of `acp_presets.py` need none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.executors.definition import ExecutorDefinition, executor_from_wire
from tertulia.executors.json_servers import JsonServers
from tertulia.policy.sandbox_mode import SandboxMode, sandbox_from_wire
from tertulia.protocol.inputs import near_names

PLACE = "{text}"
"""Where the system part goes, in a template."""
Template = Mapping[str, Any]


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps an agent within one sandbox mode, in a sandbox of its own."""

    mode: str | None = None
    """The id of a mode of its sessions."""
    meta: Template = {}
    """Goes into the `_meta` of session/new."""


class AcpDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """One agent that speaks ACP over its standard input and output."""

    program: ExecutorDefinition
    """Command, environment, home, and how it goes on with its own talks."""
    sandbox: Mapping[SandboxMode, Hold] = {}
    """Where it has none it is refused, but under danger-full-access."""
    meta: Template = {}
    """The `_meta` of session/new; with `{text}` for the system part."""
    config: tuple[str, Template] | None = None
    """A variable that it reads settings from as JSON, and these, with `{text}` likewise."""
    own_servers: JsonServers | None = None
    """How it is kept from the MCP servers that its own settings name, where a variable does that."""
    starts_own_servers: bool = False
    """Whether nothing keeps it from the MCP servers that its own settings name but settings without them."""

    @property
    def hears_system(self) -> bool:
        """Whether it can be told its system part beside the prompt."""
        return _has_place(self.meta) or (self.config is not None and _has_place(self.config[1]))


_PROGRAM = ("command", "args", "env", "env_vars", "install", "login", "version", "pid_namespace")
_WAYS = ("strategy", "on_resume_failure", "retry")
KEYS = (*_PROGRAM, *_WAYS, "sandbox", "meta")
"""What a table may say."""


def acp_from_wire(name: str, table: object, below: AcpDefinition | None) -> AcpDefinition:
    """Parse one table, over what a preset says. InvalidParams names the key; values of `env` are never shown."""
    where = f"acp.{name}"
    said = _table(where, table)
    for key in said:
        if key not in KEYS:
            near = near_names(key, KEYS, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(KEYS))}"
            raise InvalidParamsError(f"{where} has no {key!r:.80}; {hint}")
    of_program = {key: value for key, value in said.items() if key in (*_PROGRAM, *_WAYS)}
    if below is not None and isinstance(said.get("env"), Mapping):
        of_program["env"] = {**below.program.env, **said["env"]}
    program = executor_from_wire(name, of_program, None if below is None else below.program, family="acp")
    made = AcpDefinition(program=program) if below is None else msgspec.structs.replace(below, program=program)
    changes: dict[str, Any] = {}
    if "meta" in said:
        changes["meta"] = _table(f"{where}.meta", said["meta"])
    if "sandbox" in said:
        changes["sandbox"] = _holds(f"{where}.sandbox", said["sandbox"])
    return msgspec.structs.replace(made, **changes)


def filled(template: object, text: str) -> Any:
    """The template with the text in its places; members that are nothing but an empty text are left out."""
    match template:
        case str():
            return template.replace(PLACE, text)
        case Mapping():
            members = cast("Mapping[str, Any]", template)
            return {key: filled(value, text) for key, value in members.items() if text or not _has_place(value)}
        case list() | tuple():
            return [filled(value, text) for value in cast("list[Any]", template)]
        case _:
            return template


def merged(below: Template, above: Template) -> dict[str, Any]:
    """Both; where both say something, the second, and tables are merged in turn."""
    made = dict(below)
    for key, value in above.items():
        former = made.get(key)
        both = isinstance(former, Mapping) and isinstance(value, Mapping)
        made[key] = merged(cast(Template, former), cast(Template, value)) if both else value
    return made


def _has_place(template: object) -> bool:
    match template:
        case str():
            return PLACE in template
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


def _holds(where: str, value: object) -> dict[SandboxMode, Hold]:
    holds: dict[SandboxMode, Hold] = {}
    for mode, said in _table(where, value).items():
        try:
            holds[sandbox_from_wire(mode)] = msgspec.convert(said, Hold)
        except msgspec.ValidationError as error:
            raise InvalidParamsError(f"{where}.{mode} must be a table of `mode`, a text, and `meta`: {error}") from None
    return holds
