"""The MCP servers and internal tools that a context provider can give an agent, and the schemas of parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast

import msgspec
from msgspec.structs import force_setattr

from tertulia.context.agent_meta import AgentInstanceMeta
from tertulia.context.validation import (
    MAX_PROSE,
    build,
    environment_list,
    read_fields,
    require_choice,
    require_line,
    require_prose,
    require_text,
    require_texts,
)
from tertulia.errors import InvalidParamsError
from tertulia.protocol.tool_spec import ToolSpec

_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_ONLY_IN_SCHEMAS = frozenset({"$defs", "$ref", "$schema", "allOf", "anyOf", "oneOf"})


def full_schema(parameters: object) -> dict[str, Any]:
    """A JSON Schema of an object, made from a schema, a map from names to properties, or None.

    In a map, a text is the name of a type or else a description, and a property may have `required: true`. A property
    of another kind (a number, a list, None) allows any value.
    """
    if parameters is None:
        return {"type": "object", "properties": {}}
    if not isinstance(parameters, Mapping):
        raise InvalidParamsError(f"parameters must be a JSON Schema or a map of parameters, not {_kind(parameters)}")
    entries = {str(key): value for key, value in cast("Mapping[object, Any]", parameters).items()}
    if _is_schema(entries):
        return {**entries, "type": "object", **_readable(entries)}
    properties = {name: _property(value) for name, value in entries.items()}
    required = [name for name, value in properties.items() if value.pop("required", None) is True]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def usage_line(schema: Mapping[str, Any]) -> str:
    """The arguments of a call in one line: `{"html": string, "title"?: string}`; `any` for other schemas.

    >>> usage_line(full_schema({"n": {"type": "integer", "required": True}, "why": 7}))
    '{"n": integer, "why"?: any}'
    """
    properties = schema.get("properties")
    required = schema.get("required")
    needed = set(map(str, cast("list[object]", required))) if isinstance(required, list) else set[str]()
    return "{" + ", ".join(_arguments(properties, needed)) + "}"


def _arguments(properties: object, needed: set[str]) -> Iterator[str]:
    if isinstance(properties, Mapping):
        for name, value in cast("Mapping[object, object]", properties).items():
            kind = cast("Mapping[str, object]", value).get("type") if isinstance(value, Mapping) else None
            mark = "" if str(name) in needed else "?"
            yield f'"{name}"{mark}: {kind if isinstance(kind, str) else "any"}'


def _is_schema(entries: Mapping[str, Any]) -> bool:
    # A map may have a parameter called `type` or `properties`; the value tells whether it is a keyword of a schema.
    if entries.get("type") == "object" or _ONLY_IN_SCHEMAS & entries.keys():
        return True
    properties = entries.get("properties")
    return isinstance(properties, Mapping) and all(
        isinstance(value, Mapping | bool) for value in cast("Mapping[object, object]", properties).values()
    )


def _readable(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties", {})
    if not isinstance(properties, Mapping):
        return {"properties": {}}
    pairs = cast("Mapping[object, Any]", properties).items()
    return {"properties": {str(name): value if isinstance(value, bool) else _property(value) for name, value in pairs}}


def _property(value: object) -> dict[str, Any]:
    match value:
        case Mapping():
            return {str(key): item for key, item in cast("Mapping[object, Any]", value).items()}
        case str() if value in _TYPES:
            return {"type": value}
        case str():
            return {"description": value}
        case _:
            return {}


def _kind(value: object) -> str:
    return type(value).__name__


ToolScope = Literal["all", "service", "employee"]
"""The lowest archetype that gets a tool: any, `service` or `employee`."""

_LEVELS = {"repo": 0, "service": 1, "employee": 2}
_LEAST = {"all": 0, "service": 1, "employee": 2}
_METHOD = re.compile(r"[A-Za-z][A-Za-z0-9_./-]{0,127}\Z")


class McpServerStdio(msgspec.Struct, frozen=True):
    """An MCP server that is started for the agent. `env` may be a dict, and is stored as a list of {name, value}."""

    name: str
    command: str
    args: Sequence[str] = ()
    env: Sequence[Mapping[str, str]] | Mapping[str, str] | None = None
    """A list of {name, value}. Not shown in the repr."""

    def __post_init__(self) -> None:
        require_line("the name of an MCP server", self.name)
        require_text(f"command of MCP server {self.name!r}", self.command)
        force_setattr(self, "args", require_texts(f"args of MCP server {self.name!r}", self.args))
        if self.env is not None:
            force_setattr(self, "env", environment_list(self.name, self.env))

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables as a dict."""
        return {pair["name"]: pair["value"] for pair in cast("Sequence[Mapping[str, str]]", self.env or ())}

    def __repr__(self) -> str:
        return (
            f"McpServerStdio({self.name!r}, {self.command!r}, {len(self.args)} args, env of {sorted(self.variables)})"
        )


class McpServerHttp(msgspec.Struct, frozen=True):
    """An MCP server that runs already and is reached by its URL."""

    name: str
    url: str
    headers: Mapping[str, str] = {}
    """Values are not shown in the repr."""
    kind: Literal["http", "sse"] = "http"

    def __post_init__(self) -> None:
        require_line("the name of an MCP server", self.name)
        if not re.match(r"https?://\S+\Z", require_text(f"url of MCP server {self.name!r}", self.url)):
            raise InvalidParamsError(f"url of MCP server {self.name!r} must begin with http:// or https://")
        require_choice("kind", self.kind, ("http", "sse"))
        force_setattr(
            self, "headers", {pair["name"]: pair["value"] for pair in environment_list(self.name, self.headers)}
        )

    def __repr__(self) -> str:
        return f"McpServerHttp({self.name!r}, kind={self.kind!r}, headers {sorted(self.headers)})"


McpServer = McpServerStdio | McpServerHttp


class InternalCaller(msgspec.Struct, frozen=True):
    """The agent that calls an internal tool, identified by its token alone, never by the arguments of the call."""

    agent_name: str
    session_id: str
    meta: AgentInstanceMeta
    tool: str


Handler = Callable[[InternalCaller, dict[str, Any]], Any]
"""Runs an internal tool; returns plain data or an awaitable of it. A TertuliaError goes to the caller."""


class ToolDefinition(msgspec.Struct, frozen=True):
    """An internal tool. InvalidParamsError for an unknown scope, or a name that is not legal for a model."""

    name: str
    description: str
    parameters: Mapping[str, Any] | None
    """A JSON Schema; a map from names to properties is converted to one."""
    rpc_method: str
    """The method that is called, like `canvas.update`."""
    scope: ToolScope
    context: str | None = None
    """More on how to use it, for the agent's instructions."""
    handler: Handler | None = None
    """Runs the calls; None: the session's handler of `rpc_method` does."""

    def __post_init__(self) -> None:
        require_text("the name of a tool", self.name)
        require_prose(f"description of tool {self.name!r:.80}", self.description)
        if not isinstance(cast(object, self.scope), str) or self.scope not in _LEAST:
            raise InvalidParamsError(
                f"scope {self.scope!r:.40} of tool {self.name!r:.80} is not all, service or employee"
            )
        if not _METHOD.match(require_text(f"rpc_method of tool {self.name!r:.80}", self.rpc_method)):
            raise InvalidParamsError(
                f"rpc_method {self.rpc_method!r:.80} of tool {self.name!r:.80} is not a method's name"
            )
        if self.context is not None:
            require_prose(f"context of tool {self.name!r:.80}", self.context)
        force_setattr(self, "parameters", full_schema(self.parameters))
        size = len(self.spec.schema)
        if size > MAX_PROSE:
            raise InvalidParamsError(
                f"parameters of tool {self.name!r} are {size:,} characters; the limit is {MAX_PROSE:,}"
            )

    @property
    def spec(self) -> ToolSpec:
        """The tool as the model sees it: name, description, schema."""
        return ToolSpec.define(self.name, self.description, self.parameters, source="injector")


def may_use(archetype: str, scope: ToolScope) -> bool:
    """Whether an agent of this archetype gets a tool of this scope."""
    return _LEVELS.get(archetype, 0) >= _LEAST[scope]


def to_tool_definition(entry: object) -> ToolDefinition:
    """A tool of a provider: a ToolDefinition, or a mapping in camelCase or snake_case."""
    if isinstance(entry, ToolDefinition):
        return entry
    return build(ToolDefinition, {"parameters": None, **read_fields(entry, "a tool")}, "a tool")


def to_mcp_server(entry: object) -> McpServer:
    """An MCP server of a provider: McpServerHttp for a mapping with a `url`, McpServerStdio for any other."""
    if isinstance(entry, McpServerStdio | McpServerHttp):
        return entry
    values = read_fields(entry, "an MCP server")
    if "url" in values:
        return build(McpServerHttp, values, "an MCP server")
    return build(McpServerStdio, values, "an MCP server")
