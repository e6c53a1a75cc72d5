"""Carries MCP messages between clients and the SDK: as lines of a stream, over standard streams, and over HTTP.

What is not a valid message is refused here in one sentence: the SDK would answer with a page of findings, or not at
all.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Protocol, cast

from tertulia.errors import InvalidRequestError, ParseError
from tertulia.mcp.serve.endpoint import McpEndpoint
from tertulia.mcp.serve.long_texts import LONG_TEXTS, LongTexts
from tertulia.mcp.serve.message_pump import pump_messages
from tertulia.protocol.line_framing import Line, LineSplitter, OversizedLine, release_line
from tertulia.protocol.records import has_long_text
from tertulia.server.http.guard import DECODED_BODY, App, HttpRefusal, Receive, Scope, Send, replay_body
from tertulia.server.jsonrpc.messages import RequestRefusal, encode_error, read_request
from tertulia.server.jsonrpc.output_sink import FileSink, PipeSink, open_sink
from tertulia.server.jsonrpc.stdio import (
    IN_A_ROW,
    claim_standard_streams,
    read_chunks,
    wait_until_abandoned,
)
from tertulia.server.jsonrpc.strict_json import decode_json


def refuse_non_messages(app: App) -> App:
    """Refuse a body that is not an MCP message before `app` sees it. Must be called after the guard, which decodes the
    body.
    """

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if DECODED_BODY in scope:
                # Taken out of the scope, so that it is not kept: a call may take long, and its arguments may be large.
                message = scope.pop(DECODED_BODY)
                check_message(message)
                scope, receive = await _without_long_texts(message, scope, receive)
                del message
        except RequestRefusal as refused:
            error = refused.error
            # Also for a notification, which gets no answer elsewhere: an HTTP request always has one.
            line = refused.line or encode_error(None, error)
            await HttpRefusal(400, error.code, error.message, line).answer(scope, send)
        else:
            # No stream can be resumed here. Asked to resume one, the SDK would not answer at all.
            headers = [pair for pair in scope["headers"] if pair[0].lower() != b"last-event-id"]
            await app({**scope, "headers": headers}, receive, send)

    return checked


async def _without_long_texts(message: dict[str, Any], scope: Scope, receive: Receive) -> tuple[Scope, Receive]:
    """A tool call for the SDK, with its long texts taken out (see `LongTexts`); any other message unchanged."""
    params = message.get("params")
    if message.get("method") != "tools/call" or not isinstance(params, dict):
        return scope, receive
    fields = cast("dict[str, Any]", params)
    if not has_long_text(fields.get("arguments")):
        return scope, receive
    texts = LongTexts()
    marked = {**message, "params": {**fields, "arguments": texts.take_out(fields["arguments"])}}
    # Consume the original body, which is replaced.
    await receive()
    return {**scope, LONG_TEXTS: texts}, replay_body(json.dumps(marked).encode(), receive)


def check_message(message: Any, *, answers: bool = True) -> None:
    """Raise RequestRefusal for what is not a message. `answers`: also check answers to requests of ours."""
    if isinstance(message, list):
        # Only one version of the protocol (2025-03-26) had batches.
        raise RequestRefusal(InvalidRequestError("batches are not accepted here; send one message at a time"), None)
    if not isinstance(message, dict):
        raise RequestRefusal(InvalidRequestError("a message is an object"), None)
    fields = cast("dict[str, Any]", message)
    if "method" not in fields and "id" in fields:
        if answers and not _is_answer(fields):
            raise RequestRefusal(
                InvalidRequestError("an answer has the id of a request, and a result or an error"), None
            )
        return
    request = read_request(fields)
    if isinstance(request.id, float):
        # JSON-RPC allows it, but the SDK would take the request for a notification and not answer it.
        raise RequestRefusal(InvalidRequestError("an id is an integer or a text"), None)


def _is_answer(fields: dict[str, Any]) -> bool:
    if fields.get("jsonrpc") != "2.0" or ("result" in fields) == ("error" in fields):
        return False
    if "result" in fields:
        return _is_id(fields["id"]) and isinstance(fields["result"], dict)
    error = fields["error"]
    return (
        (fields["id"] is None or _is_id(fields["id"]))
        and isinstance(error, dict)
        and type(cast("dict[str, Any]", error).get("code")) is int
        and isinstance(cast("dict[str, Any]", error).get("message"), str)
    )


def _is_id(id: object) -> bool:
    return isinstance(id, str) or type(id) is int


MAX_LINE_BYTES = 32 * 1024 * 1024
"""Room for the longest text that is accepted, also where escapes make it a few times longer."""
_FLUSH_S = 2.0


class LineSink(Protocol):
    """Takes the lines that are sent to the client."""

    async def send(self, line: bytes) -> None:
        """Send one line. Waits while the client does not read; returns at once when it is gone."""
        ...


async def serve_lines(
    broker: McpEndpoint, incoming: AsyncIterator[bytes], writing: LineSink, *, strict: bool = False
) -> None:
    """Serve one client until its input ends. A line that is no message is dropped; one that is too long ends the
    connection.

    `strict`: both are answered with a refusal instead, and so is JSON that could be read in two ways.
    """
    lines = _checked_lines(incoming, writing, strict=strict)
    await pump_messages(broker, lines, writing.send, flush_s=_FLUSH_S)


async def _checked_lines(
    chunks: AsyncIterator[bytes], writing: LineSink, *, strict: bool
) -> AsyncIterator[bytes | dict[str, Any]]:
    """The lines that may be messages; in strict mode a checked request is given decoded."""
    splitter = LineSplitter(MAX_LINE_BYTES)
    async for chunk in chunks:
        for number, line in enumerate(splitter.feed(chunk), 1):
            if number % IN_A_ROW == 0:
                # No line may have waited for anything: let other tasks run.
                await asyncio.sleep(0)
            if not strict:
                if isinstance(line, OversizedLine):
                    return
                yield bytes(line)
                continue
            try:
                checked = await _checked(line)
            except ParseError as error:
                await writing.send(encode_error(None, error) + b"\n")
            except RequestRefusal as refused:
                if refused.line is not None:
                    await writing.send(refused.line + b"\n")
            else:
                yield checked


async def _checked(line: Line | OversizedLine) -> bytes | dict[str, Any]:
    """The message in a line. Raises ParseError or RequestRefusal."""
    if isinstance(line, OversizedLine):
        raise RequestRefusal(
            InvalidRequestError(f"a line has at most {MAX_LINE_BYTES:,} bytes; this one was skipped"), None
        )
    message = await decode_json(line)
    # Answers to requests of ours are read as leniently as those of any MCP server.
    check_message(message, answers=False)
    fields = cast("dict[str, Any]", message)
    if "method" not in fields:
        return bytes(line)
    release_line(line)
    return fields


async def serve_mcp_stdio(broker: McpEndpoint, stop: asyncio.Event) -> None:
    """Serve one client on the standard streams until the input ends, the client is gone, or `stop` is set."""
    with claim_standard_streams() as (source, target):
        sink = await open_sink(target, stop.set)
        try:
            async with asyncio.TaskGroup() as group:
                serving = group.create_task(serve_lines(broker, read_chunks(source), _StdioLineSink(sink), strict=True))
                stopping = group.create_task(stop.wait())
                left = group.create_task(wait_until_abandoned(source, sink))
                await asyncio.wait((serving, stopping, left), return_when=asyncio.FIRST_COMPLETED)
                for task in (serving, stopping, left):
                    task.cancel()
        finally:
            await sink.close(1.0)


class _StdioLineSink:
    def __init__(self, sink: PipeSink | FileSink) -> None:
        self._sink = sink

    async def send(self, line: bytes) -> None:
        self._sink.send([line.removesuffix(b"\n")])
        await self._sink.drain()
