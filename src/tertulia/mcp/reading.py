"""Resources of ours as MCP has them: the handlers for whatever library is served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tertulia.errors import TertuliaError
from tertulia.mcp.serving import Library

if TYPE_CHECKING:
    import mcp_types as t
    from mcp.server.context import ServerRequestContext

_INVALID_PARAMS = -32602
_NOT_FOUND = -32002
"""Of the old era; the new one has no number of its own for it."""
_MODERN = "2026-07-28"


def reading_of(library: Library) -> dict[str, Any]:
    """Arguments for the SDK's server."""
    import mcp_types as t
    from mcp.shared.exceptions import MCPError

    async def listed(ctx: ServerRequestContext[Any], params: Any) -> t.ListResourcesResult:
        return t.ListResourcesResult(
            resources=[
                t.Resource(uri=each.uri, name=each.name, title=each.title, mime_type=each.mime_type)
                for each in await library.resources()
            ]
        )

    async def templates(ctx: ServerRequestContext[Any], params: Any) -> t.ListResourceTemplatesResult:
        template = t.ResourceTemplate(uri_template=library.template, name="conversation", mime_type="application/json")
        return t.ListResourceTemplatesResult(resource_templates=[template])

    async def read(ctx: ServerRequestContext[Any], params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
        uri = str(params.uri)
        try:
            text = await library.read(uri)
        except TertuliaError as error:
            number = _INVALID_PARAMS if ctx.protocol_version >= _MODERN else _NOT_FOUND
            raise MCPError(number, error.message, {"uri": uri}) from None
        return t.ReadResourceResult(
            contents=[t.TextResourceContents(uri=params.uri, mime_type="application/json", text=text)]
        )

    return {"on_list_resources": listed, "on_list_resource_templates": templates, "on_read_resource": read}
