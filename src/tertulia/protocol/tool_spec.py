"""What a model is told about a tool, as plain data.

The schema is kept as canonical JSON text: it goes to the wire as it is, is hashed once, and two definitions
are the same exactly when their texts are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.protocol.tool_names import is_legal

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
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidParamsError(f"the definition of tool {name!r} cannot be written as JSON: {error}") from None
        digest = hashlib.sha256(sealed).hexdigest()
        taken = None if accepts is None else _canonical.encode(dict(accepts)).decode()
        called = None if remote is None else remote[0]
        return cls(name, description, schema.decode(), source, digest, server, kind, grammar, taken, called)

    @property
    def signature(self) -> str:
        """What must agree for two definitions of one name to count as the same tool."""
        return f"{self.kind}\n{self.schema}\n{self.grammar or ''}"
