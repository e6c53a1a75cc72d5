"""Serves the prompts of a `PromptSource` to MCP clients: listed and got, each as one message of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tertulia.errors import TertuliaError
from tertulia.mcp.serve.sources import PromptSource

if TYPE_CHECKING:
    import mcp_types as t
    from mcp.server.context import ServerRequestContext

_INVALID_PARAMS = -32602


def prompt_handlers(source: PromptSource) -> dict[str, Any]:
    """Arguments for the SDK's server, by which prompts are listed and got."""
    import mcp_types as t
    from mcp.shared.exceptions import MCPError

    async def listed(ctx: ServerRequestContext[Any], params: Any) -> t.ListPromptsResult:
        return t.ListPromptsResult(
            prompts=[
                t.Prompt(
                    name=prompt.name,
                    description=prompt.description,
                    arguments=[
                        t.PromptArgument(
                            name=argument.name, description=argument.description, required=argument.required
                        )
                        for argument in prompt.arguments
                    ],
                )
                for prompt in await source.prompts()
            ]
        )

    async def got(ctx: ServerRequestContext[Any], params: t.GetPromptRequestParams) -> t.GetPromptResult:
        try:
            text = await source.prompt(params.name, dict(params.arguments or {}))
        except TertuliaError as error:
            raise MCPError(_INVALID_PARAMS, error.message, {"code": error.code}) from None
        return t.GetPromptResult(messages=[t.PromptMessage(role="user", content=t.TextContent(text=text))])

    return {"on_list_prompts": listed, "on_get_prompt": got}
