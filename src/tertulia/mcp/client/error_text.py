"""Errors of an MCP server as one sentence: our words, and of the server's own text a bounded, visible part.

No word of the SDK or of its libraries is shown.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Literal, cast

from tertulia.errors import McpError
from tertulia.policy.display_text import make_display_text
from tertulia.schema.model_errors import explain_problem, model_problems, problem_place

_log = logging.getLogger(__name__)

Reason = Literal["closed", "protocol", "refused", "timeout", "limit", "not_started"]

_MOST_CHARACTERS = 500
_MOST_NESTED = 8
_UNPARSED = "Failed to parse"
"""How the SDK begins the message of a parse error; the rest of it is its parser's text."""
_ENDED = ("Connection closed", "SSE stream ")
"""How the SDK's own errors with code -32000 begin. Servers use that code for other errors."""
_VERSION = "Unsupported protocol version from the server: "
"""How the SDK begins its error for a server whose protocol version it does not know."""
UNREADABLE = -32700
"""The code of our error in place of a response that cannot be read: JSON-RPC's own for a parse error."""
UNREADABLE_PREFIX = "Unreadable: "
"""How the message of that error begins."""
NO_LOGIN = -32097
"""Our error code for a request that a login is missing for; the message is ours."""
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
    from pydantic import ValidationError

    error = _first(error)
    match error:
        case MCPError():
            return _explain_response(error.code, error.message)
        case ValidationError():
            where, problem = field_problem(model_problems(error)[0])
            return "protocol", f"the server's answer is not what the protocol says, at `{where}`: {problem}"
        case UnicodeError():
            return "protocol", "a text of the call cannot be written as UTF-8"
        case OSError():
            return "closed", f"the server cannot be reached: {error.strerror or 'it takes too long'}"
        case RuntimeError() if str(error).startswith(_VERSION):
            version = quote_server_text(str(error).removeprefix(_VERSION), 40)
            return "protocol", f"it speaks version {version} of the protocol, which is not known here"
        case _:
            _log.info("an answer of an MCP server cannot be used: the SDK raised %s", type(error).__name__)
            return "protocol", "the server's answer cannot be used"


def _explain_response(code: int, message: str) -> tuple[Reason, str]:
    """For an error response of the server, or one that the SDK or our transport made in its place."""
    from mcp_types import CONNECTION_CLOSED, PARSE_ERROR, REQUEST_TIMEOUT

    if code == CONNECTION_CLOSED and message.startswith(_ENDED):
        return "closed", "the connection is closed"
    if code == NO_ANSWER:
        return "closed", f"the connection is closed ({quote_server_text(message)})"
    if code == NO_LOGIN:
        return "refused", quote_server_text(message)
    if code == REQUEST_TIMEOUT:
        return "timeout", "the server does not answer"
    if code == PARSE_ERROR and message.startswith(_UNPARSED):
        return "protocol", "the server's answer cannot be read"
    if code == UNREADABLE and message.startswith(UNREADABLE_PREFIX):
        why = quote_server_text(message.removeprefix(UNREADABLE_PREFIX))
        return "protocol", f"the server's answer cannot be read: {why}"
    return "refused", f"the server answered with error {code}: {quote_server_text(message)}"


def field_problem(problem: Mapping[str, Any], skipped: int = 0) -> tuple[str, str]:
    """(The place of a pydantic problem without its first steps, what is wrong there in our words.)"""
    where = problem_place(problem["loc"][skipped:])
    return quote_server_text(where, 200), explain_problem(problem, "it is not what the protocol allows")


def _first(error: Exception) -> Exception:
    for _ in range(_MOST_NESTED):
        if not isinstance(error, ExceptionGroup):
            break
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error
