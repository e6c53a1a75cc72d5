"""Errors of an MCP server as one sentence: our words, and of the server's own text a bounded, visible part."""

from __future__ import annotations

from typing import Literal, cast

from tertulia.errors import McpError
from tertulia.policy.display_text import make_display_text

Reason = Literal["closed", "protocol", "refused", "timeout", "limit", "not_started"]

_MOST_CHARACTERS = 500
_MOST_NESTED = 8
_UNPARSED = "Failed to parse"
"""How the SDK begins the message of a parse error; the rest of it is its parser's text."""
_ENDED = ("Connection closed", "SSE stream ")
"""How the SDK's own errors with code -32000 begin. Servers use that code for other errors."""
UNREADABLE = -32700
"""The code of our error in place of a response that cannot be read: JSON-RPC's own for a parse error."""
UNREADABLE_PREFIX = "Unreadable: "
"""How the message of that error begins."""
NO_ANSWER = -32098
"""Our error code for a request that got no answer."""


def server_error(server: str, reason: Reason, sentence: str) -> McpError:
    """The McpError that the caller of a tool gets."""
    return McpError(f"{server}: {sentence}", server=server, reason=reason)


def quote_server_text(text: str, most: int = _MOST_CHARACTERS) -> str:
    """A server's own text, cut and without hidden characters, so that it can be shown."""
    return make_display_text(text.strip(), max_characters=most).text


def sdk_errors() -> tuple[type[Exception], ...]:
    """What the SDK and its transports raise when a server misbehaves or is gone. The SDK must be loaded by now."""
    import anyio
    import httpx2
    from mcp import MCPError

    # Among the plain ones are pydantic's, and what the SDK raises for answers that it does not expect.
    plain = (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError, ExceptionGroup)
    streams = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
    return (MCPError, httpx2.HTTPError, httpx2.InvalidURL, *streams, *plain)


def explain_error(error: Exception) -> tuple[Reason, str]:
    """The reason and a sentence. Of the message's content it contains only the server's own error text."""
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED, PARSE_ERROR, REQUEST_TIMEOUT
    from pydantic import ValidationError

    error = _first(error)
    match error:
        case MCPError() if error.code == CONNECTION_CLOSED and error.message.startswith(_ENDED):
            return "closed", f"the connection is closed ({quote_server_text(error.message)})"
        case MCPError() if error.code == NO_ANSWER:
            return "closed", f"the connection is closed ({quote_server_text(error.message)})"
        case MCPError() if error.code == REQUEST_TIMEOUT:
            return "timeout", "the server does not answer"
        case MCPError() if error.code == PARSE_ERROR and error.message.startswith(_UNPARSED):
            return "protocol", "the server's answer cannot be read"
        case MCPError() if error.code == UNREADABLE and error.message.startswith(UNREADABLE_PREFIX):
            why = error.message.removeprefix(UNREADABLE_PREFIX)
            return "protocol", f"the server's answer cannot be read: {quote_server_text(why)}"
        case MCPError():
            return "refused", f"the server answered with error {error.code}: {quote_server_text(error.message)}"
        case ValidationError():
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = quote_server_text(".".join(map(str, first["loc"])), 100)
            return (
                "protocol",
                f"the server's answer is not what the protocol says, at `{where}`: {quote_server_text(first['msg'])}",
            )
        case UnicodeError():
            return "protocol", "a text of the call cannot be written as UTF-8"
        case OSError():
            return "closed", f"the server cannot be reached: {error.strerror or type(error).__name__}"
        case _:
            return (
                "protocol",
                f"the server's answer cannot be used: {quote_server_text(str(error)) or type(error).__name__}",
            )


def _first(error: Exception) -> Exception:
    for _ in range(_MOST_NESTED):
        if not isinstance(error, ExceptionGroup):
            break
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error
