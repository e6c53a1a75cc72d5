"""Configured agents: `[agents.NAME]` gives a name to fields that a conversation is opened with.

A conversation that is opened as one gets those fields as if they had been asked for, so they can only narrow. Not here:
the identity that context providers are asked about, see `context/agent_meta.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from tertulia.context.agent_meta import check_agent_name
from tertulia.errors import InvalidParamsError
from tertulia.policy.limits import Limits, limits_from_wire
from tertulia.policy.rights import parse_right
from tertulia.protocol.conversation_fields import CONVERSATION_FIELDS, FIELDS_BY_NAME, ConversationField, Structured
from tertulia.protocol.inputs import NewConversation, OpenFromPython, check_text
from tertulia.protocol.name_hints import name_hint, near_names
from tertulia.protocol.validation_text import explain_validation
from tertulia.tools.function import as_tools

MAX_AGENTS = 64
MAX_DESCRIPTION = 400
MAX_INSTRUCTIONS_BYTES = 256 * 1024
"""The most bytes of a file with an agent's instructions."""
_INSTRUCTIONS = ("instructions", "instructions_file", "base_instructions")
_OF_CONVERSATION_ALONE = frozenset({"agent", "cwd", "title"})
AGENT_KEYS = (
    "description",
    *_INSTRUCTIONS[:2],
    *(row.name for row in CONVERSATION_FIELDS if row.doc is not None and row.name not in _OF_CONVERSATION_ALONE),
)
"""What a table of an agent can hold."""


class ConfiguredAgent(msgspec.Struct, frozen=True):
    """An agent that is set up, checked."""

    name: str
    description: str
    spec: OpenFromPython
    """What a conversation is opened with that is this agent, but for instructions in a file."""
    instructions_file: str | None = None

    def open_spec(self) -> OpenFromPython:
        """The fields to open it with, instructions included. InvalidParams where their file cannot be read."""
        if self.instructions_file is None:
            return self.spec
        text = read_instructions(self.instructions_file, f"agents.{self.name}.instructions_file")
        return replace(self.spec, base_instructions=text)


def agent_from_wire(name: str, table: Mapping[str, Any]) -> ConfiguredAgent:
    """The agent that a table describes; InvalidParams names the key that is wrong."""
    place = f"agents.{check_agent_name(name)}"
    for key in table:
        if key not in AGENT_KEYS:
            raise InvalidParamsError(f"{place}: there is no key {key!r:.80}; {name_hint(key, AGENT_KEYS)}")
    values = {key: value for key, value in table.items() if value is not None}
    texts = [key for key in _INSTRUCTIONS if key in values]
    if len(texts) > 1:
        raise InvalidParamsError(f"{place}: give {texts[0]} or {texts[1]}, not both")
    description, file = values.pop("description", ""), values.pop("instructions_file", None)
    if "instructions" in values:
        values["base_instructions"] = values.pop("instructions")
    functions = values.pop("tools", UNSET)
    try:
        spec = msgspec.convert(values, OpenFromPython, from_attributes=True)
        for key, value in values.items():
            _check_value(FIELDS_BY_NAME[key], value)
        if functions is not UNSET:
            spec = replace(spec, functions=as_tools(functions))
    except msgspec.ValidationError as error:
        raise InvalidParamsError(f"{place}: {explain_validation(error, OpenFromPython)}") from None
    except InvalidParamsError as error:
        raise InvalidParamsError(f"{place}: {error.message}") from None
    return ConfiguredAgent(name, _description(place, description), spec, _file(place, file))


def _check_value(row: ConversationField, value: Any) -> None:
    if not isinstance(row.kind, Structured):
        row.parse(value)
    elif row.name == "limits":
        limits_from_wire(value, Limits())
    elif row.name == "model" and not (isinstance(value, str) and value) and not hasattr(value, "stream"):
        raise InvalidParamsError(f"model must be 'provider/model' or a model wire, not {value!r:.80}")
    elif row.narrows and row.name != "mcp_tool_allowlist":
        parse_right(row.right, value)
    elif isinstance(value, str):
        check_text(value, row.name)


def _description(place: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_DESCRIPTION:
        raise InvalidParamsError(f"{place}: description must be a text of at most {MAX_DESCRIPTION} characters")
    return " ".join(check_text(value, "description").split())


def _file(place: str, value: object) -> str | None:
    if value is not None and (not isinstance(value, str) or not os.path.isabs(value) or "\0" in value):
        raise InvalidParamsError(f"{place}: instructions_file must be an absolute path, not {value!r:.200}")
    return value


def read_instructions(path: str, named: str) -> str:
    """The text of a file of instructions; InvalidParamsError says what is wrong with it."""
    from tertulia.policy.plain_file import decode_text, read_named_file

    label = f"{named}: {path!r:.200}"
    text = decode_text(read_named_file(path, MAX_INSTRUCTIONS_BYTES, label), label)
    if not text.strip():
        raise InvalidParamsError(f"{label} is empty")
    return text


class ConfiguredAgents:
    """The configured agents of a session, by name, in the order in which they were written."""

    def __init__(self, tables: Mapping[str, Mapping[str, Any]]) -> None:
        if len(tables) > MAX_AGENTS:
            raise InvalidParamsError(f"agents: there are {len(tables)}; the limit is {MAX_AGENTS}")
        self._agents = {name: agent_from_wire(name, table) for name, table in tables.items()}

    def __iter__(self) -> Iterator[ConfiguredAgent]:
        return iter(self._agents.values())

    def find(self, name: str) -> ConfiguredAgent:
        """The agent of that name; InvalidParams says which there are."""
        if name in self._agents:
            return self._agents[name]
        if not self._agents:
            hint = "none is set up; define it as [agents.NAME] in config.toml, or in Settings(agents={…})"
        elif near := near_names(name, self._agents, 1):
            hint = f"did you mean {near[0]}?"
        else:
            hint = f"there is {', '.join(self._agents)}"
        raise InvalidParamsError(f"agent {name!r:.80} is unknown; {hint}")

    def opened(self, spec: NewConversation) -> NewConversation:
        """What a client asks for that names an agent: fields that it gives itself win over the agent's."""
        return self._filled(spec, UNSET, _FIELDS)

    def for_child(self, spec: NewConversation) -> NewConversation:
        """The same for a child that a model opens, but for rights: those of the agent are a limit, see `rights_of`."""
        return self._filled(spec, spec.agent, _NO_RIGHTS)

    def rights_of(self, name: str) -> NewConversation:
        """The rights that the agent asks for, and nothing else."""
        spec = self.find(name).spec
        return NewConversation(**{field: getattr(spec, field) for field in _RIGHTS})

    def _filled(self, spec: NewConversation, named: Any, fields: Iterable[str]) -> NewConversation:
        if not isinstance(spec.agent, str):
            return spec
        agent = self.find(spec.agent)
        open_spec = agent.open_spec()
        values = {name: getattr(spec, name) for name in spec.__struct_fields__}
        for name in fields:
            if values.get(name, UNSET) is UNSET:
                values[name] = getattr(open_spec, name)
        if values["title"] is UNSET:
            values["title"] = agent.name
        return OpenFromPython(**{**values, "agent": named})


_RIGHTS = [row.name for row in CONVERSATION_FIELDS if row.narrows and row.name in NewConversation.__struct_fields__]
_FIELDS = [name for name in OpenFromPython.__struct_fields__ if name not in ("agent", "parent_id", "title")]
_NO_RIGHTS = [name for name in _FIELDS if name not in _RIGHTS or cast("Any", FIELDS_BY_NAME[name]).is_preference]
