"""Posts a notification to an address, over the HTTP connections that models are asked with. Follows no redirect."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from tertulia.models.http.http_connection import HttpAddress, HttpConnection, HttpExchange, connect
from tertulia.models.http.http_response import NotHttpError
from tertulia.protocol.connection_text import explain_connection_error


async def post_notification(url: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> str | None:
    """Post it, and wait for the status of the answer. Why it was not taken, or None; the address is not repeated."""
    connection: HttpConnection | None = None
    try:
        async with asyncio.timeout(timeout_s):
            address = HttpAddress(url)
            connection = await connect(address, _close)
            exchange = HttpExchange(connection)
            await connection.send(address.head({**headers, "Connection": "close"}, len(body)), [body], exchange)
            while exchange.status is None and exchange.error is None:
                await exchange.more()
    except TimeoutError:
        return f"the address in notify.url did not answer within {timeout_s:g} s"
    except (OSError, ValueError) as error:
        return f"the address in notify.url cannot be reached: {explain_connection_error(error)}"
    finally:
        if connection is not None:
            connection.cut()
    match exchange:
        case HttpExchange(status=int(status)):
            return None if 200 <= status < 300 else f"the address in notify.url answered with status {status}"
        case HttpExchange(error=NotHttpError()):
            return "what answers at the address in notify.url does not speak HTTP"
        case _:
            return "the address in notify.url closed the connection without an answer"


def _close(connection: HttpConnection) -> None:
    connection.close()
