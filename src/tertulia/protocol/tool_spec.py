"""The definition of a tool as a model sees it, as plain data.

The schema is stored as canonical JSON text: it is sent as it is, hashed once, and two definitions are equal exactly
when their texts are. A tool's name matches `^[a-zA-Z0-9_-]{1,64}$` on the wire. An MCP tool's fully qualified name is
`server__tool`; it is mapped back to server and tool by a table, never by splitting, because both may contain `__`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.protocol.validation_text import NOT_JSON

MAX_NAME = 64
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_SERVER = re.compile(r"[a-zA-Z0-9_-]+\Z")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")

CONV_TOOLS = ("conv_create", "conv_send", "conv_list", "conv_history", "conv_destroy")
"""The five conversation tools, in the order models see them."""

CONV_MERGE = "conv_merge"
"""A sixth conversation tool, listed last: only a conversation that has opened one with a worktree has it."""
ALL_CONV_TOOLS = (*CONV_TOOLS, CONV_MERGE)

LOCAL_SHELL = "local_shell"
"""A tool that we run although a provider's API defines it."""

BASH = "bash"
"""The name of the command line on an API that defines one itself."""
TEXT_EDITOR = "str_replace_based_edit_tool"
"""The name of the text editor on such an API."""

INTERRUPTING = CONV_TOOLS[:2]
"""The conversation tools whose call is handed to another conversation."""

_ALIASES = {name.replace("_", ".", 1): name for name in ALL_CONV_TOOLS}


def is_legal(name: str) -> bool:
    """Whether this is a legal name of a tool on the wire."""
    return NAME.match(name) is not None


def is_legal_server(name: str) -> bool:
    """Whether this is a legal name of an MCP server."""
    return _SERVER.match(name) is not None


def canonical_name(name: str) -> str:
    """The wire name of a tool that a person or a model named: `conv.create` is an alias of `conv_create`."""
    return _ALIASES.get(name, name)


def fqn(server: str, tool: str) -> str:
    """`server__tool`, made legal; a name of more than 64 characters is cut and ends in a SHA-1 of the whole name.

    A name with illegal characters gets the SHA-1 as well, because two tools that differ only in an illegal character
    must not get the same name.
    """
    return _fit_name(f"{server}__{tool}")


def _fit_name(raw: str) -> str:
    legal = _ILLEGAL.sub("_", raw)
    if legal == raw and len(raw) <= MAX_NAME:
        return raw
    digest = hashlib.sha1(raw.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    if len(legal) + 1 + len(digest) <= MAX_NAME:
        return f"{legal}_{digest}"
    return legal[: MAX_NAME - len(digest)] + digest


def normalise_allowlist_entry(entry: str) -> tuple[str, bool]:
    """(`server__tool`, whether the deprecated `server/tool` spelling was used).

    A name that is too long is shortened as `fqn` does; a name with illegal characters is returned as it is.
    """
    server, _, tool = entry.partition("/")
    old = bool(server and tool and "/" not in tool)
    name = f"{server}__{tool}" if old else entry
    return _fit_name(name) if _SERVER.match(name) else name, old


ToolSource = Literal["builtin", "conv", "injector", "function", "mcp"]
ToolKind = Literal["function", "custom", "hosted"]

_canonical = msgspec.json.Encoder(order="deterministic")


class ToolSpec(msgspec.Struct, frozen=True, gc=False):
    """One tool's definition. Make it with `ToolSpec.define`, which checks and seals it."""

    name: str
    description: str
    schema: str
    """The JSON Schema of the arguments, as canonical text."""
    source: ToolSource
    digest: str
    """SHA-256 over everything that the model sees; a view of MCP servers pins it."""
    server: str | None = None
    kind: ToolKind = "function"
    """`custom`: takes free text instead of JSON arguments; `hosted`: the provider runs the tool, we never do."""
    grammar: str | None = None
    """For a custom tool, the grammar of its text."""
    accepts: str | None = None
    """The JSON Schema of accepted arguments, where more is accepted than `schema` says; canonical text."""
    remote_name: str | None = None
    """For a tool of an MCP server, its name on that server; never derived by splitting `name`."""
    provider_type: str | None = None
    """The type under which the Messages API knows the tool: there it is sent instead of description and schema."""

    @classmethod
    def define(
        cls,
        name: str,
        description: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        source: ToolSource = "builtin",
        server: str | None = None,
        kind: ToolKind = "function",
        grammar: str | None = None,
        accepts: Mapping[str, Any] | None = None,
        remote: tuple[str, Mapping[str, Any]] | None = None,
        provider_type: str | None = None,
    ) -> ToolSpec:
        """Check the name, bring the schema into canonical form and compute the digest.

        `remote`: the tool's name on its MCP server, and other properties that the digest must cover.
        """
        if not is_legal(name):
            raise InvalidParamsError(f"tool name {name!r} must match ^[a-zA-Z0-9_-]{{1,64}}$")
        try:
            schema = _canonical.encode({"type": "object", "properties": {}} if parameters is None else dict(parameters))
            more = (*(remote or ()), *((provider_type,) if provider_type is not None else ()))
            sealed = _canonical.encode([name, description, kind, grammar, msgspec.Raw(schema), *more])
        except (TypeError, ValueError, RecursionError):
            raise InvalidParamsError(f"the definition of tool {name!r} cannot be written as JSON: {NOT_JSON}") from None
        digest = hashlib.sha256(sealed).hexdigest()
        taken = None if accepts is None else _canonical.encode(dict(accepts)).decode()
        called = None if remote is None else remote[0]
        text = schema.decode()
        return cls(name, description, text, source, digest, server, kind, grammar, taken, called, provider_type)

    @property
    def signature(self) -> str:
        """The kind, schema and grammar: two definitions of one name with equal signatures are the same tool."""
        return f"{self.kind}\n{self.schema}\n{self.grammar or ''}"
