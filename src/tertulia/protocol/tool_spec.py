"""What a model is told about a tool, as plain data.

The schema is kept as canonical JSON text: it goes to the wire as it is, is hashed once, and two definitions
are the same exactly when their texts are. Its name matches `^[a-zA-Z0-9_-]{1,64}$` on the wire. An MCP tool's fully
qualified name is `server__tool`; the mapping back to server and tool is by table, never by splitting, because both
halves may contain `__`.
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
"""One more, the last of all tools: only a conversation has it that has opened one with a worktree."""
ALL_CONV_TOOLS = (*CONV_TOOLS, CONV_MERGE)

LOCAL_SHELL = "local_shell"
"""The one tool that a provider's API knows by its name although we run it."""

INTERRUPTING = CONV_TOOLS[:2]
"""Those that hand their call to another conversation."""

_ALIASES = {name.replace("_", ".", 1): name for name in ALL_CONV_TOOLS}


def is_legal(name: str) -> bool:
    """Whether a model may be shown this name."""
    return NAME.match(name) is not None


def is_legal_server(name: str) -> bool:
    """Whether an MCP server may be called so."""
    return _SERVER.match(name) is not None


def canonical_name(name: str) -> str:
    """The wire name for what a person or a model wrote: dotted conv names are aliases."""
    return _ALIASES.get(name, name)


def fqn(server: str, tool: str) -> str:
    """`server__tool`, made legal; over 64 characters it is cut and ends in a SHA-1 of the whole name.

    A name that had to be changed gets the suffix as well: two tools that differ only in an illegal
    character must not become one.
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

    A name that is too long for a model may be written in full; any other that is illegal is left as it is.
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
    """JSON Schema of the arguments, canonical text."""
    source: ToolSource
    digest: str
    """SHA-256 over everything the model sees; a view pins it."""
    server: str | None = None
    kind: ToolKind = "function"
    """custom: free text instead of JSON arguments; hosted: the provider runs it, we never do."""
    grammar: str | None = None
    """For a custom tool, the grammar of its text."""
    accepts: str | None = None
    """JSON Schema of what is taken, where that is more than the model is told; canonical text."""
    remote_name: str | None = None
    """For a tool of an MCP server, what that server calls it: a name is looked up here, never taken apart."""

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
    ) -> ToolSpec:
        """Check the name, bring the schema into canonical form and seal the definition with its digest.

        `remote`: what a server calls it, and what else it says of it that must not change unnoticed.
        """
        if not is_legal(name):
            raise InvalidParamsError(f"tool name {name!r} must match ^[a-zA-Z0-9_-]{{1,64}}$")
        try:
            schema = _canonical.encode({"type": "object", "properties": {}} if parameters is None else dict(parameters))
            sealed = _canonical.encode([name, description, kind, grammar, msgspec.Raw(schema), *(remote or ())])
        except (TypeError, ValueError, RecursionError):
            raise InvalidParamsError(f"the definition of tool {name!r} cannot be written as JSON: {NOT_JSON}") from None
        digest = hashlib.sha256(sealed).hexdigest()
        taken = None if accepts is None else _canonical.encode(dict(accepts)).decode()
        called = None if remote is None else remote[0]
        return cls(name, description, schema.decode(), source, digest, server, kind, grammar, taken, called)

    @property
    def signature(self) -> str:
        """What must agree for two definitions of one name to count as the same tool."""
        return f"{self.kind}\n{self.schema}\n{self.grammar or ''}"
