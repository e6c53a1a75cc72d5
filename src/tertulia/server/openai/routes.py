"""The routes at `/v1`: a request of an OpenAI client becomes a message of a conversation, and its answer goes back.

A client that goes away stops its task, as one does that presses its stop button. Such clients can answer no approval:
what has to be asked is refused, unless another client attends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tertulia.errors import NotFoundError, TertuliaError
from tertulia.events.clock import SystemClock
from tertulia.mcp.server_connection import Spawn
from tertulia.protocol.inputs import Message
from tertulia.scheduler.reply import Reply
from tertulia.server.http.guard import DECODED_BODY, Receive, Scope, Send
from tertulia.server.http.streaming import SILENCE_S, WAITING, until_gone
from tertulia.server.openai.answers import (
    AnswerForm,
    ChatCompletion,
    ResponseAnswer,
    ShownText,
    describe_error,
    error_status,
    model_entry,
)
from tertulia.server.openai.chats import Chats, OpenChat
from tertulia.server.openai.requests import ChatRequest, read_chat, read_response
from tertulia.session.host import Host
from tertulia.session.inputs import parse
from tertulia.session.submission import Submission

_NO_RETRY = (b"x-should-retry", b"false")
"""Clients send a request again that failed with 5xx: its task, and what that did, would run a second time."""
_SPEECH = (b"content-type", b"text/event-stream; charset=utf-8")


class OpenAiRoutes:
    """Serves OpenAI clients the conversations of a host."""

    def __init__(self, host: Host, spawn: Spawn) -> None:
        self._chats = Chats(host, spawn)
        self._clock = SystemClock()
        self._began = int(self._clock.now())
        self.routes: list[Route] = [
            Route("/v1/models", self._models, methods=["GET"]),
            Route("/v1/models/{model:path}", self._model, methods=["GET"]),
            Route("/v1/chat/completions", self._endpoint(read_chat, ChatCompletion), methods=["POST"]),
            Route("/v1/responses", self._endpoint(read_response, ResponseAnswer), methods=["POST"]),
        ]

    async def _models(self, request: Request) -> JSONResponse:
        entries = [model_entry(name, self._began) for name in await self._chats.models()]
        return JSONResponse({"object": "list", "data": entries})

    async def _model(self, request: Request) -> JSONResponse:
        name = request.path_params["model"]
        if name not in await self._chats.models():
            error = NotFoundError(f"there is no model {name!r:.64}; /v1/models lists them")
            return JSONResponse({"error": describe_error(error.code, error.message)}, 404)
        return JSONResponse(model_entry(name, self._began))

    def _endpoint(
        self, read: Callable[[object], ChatRequest], form: Callable[[ChatRequest, int], AnswerForm]
    ) -> ChatEndpoint:
        return ChatEndpoint(self._chats, read, lambda request: form(request, int(self._clock.now())))


class ChatEndpoint:
    """The ASGI application of one of the two paths."""

    def __init__(
        self, chats: Chats, read: Callable[[object], ChatRequest], form: Callable[[ChatRequest], AnswerForm]
    ) -> None:
        self._chats = chats
        self._read = read
        self._form = form

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, unless its client goes away first."""
        client = _ChatClient(send)
        try:
            request = self._read(scope.pop(DECODED_BODY, None))
            # The body, which was read before; after it only the end of the connection comes.
            await receive()
            await until_gone(receive, self._answer(request, client, _idempotency_key(scope)))
        except TertuliaError as error:
            await client.refuse(error_status(error), describe_error(error.code, error.message))

    async def _answer(self, request: ChatRequest, client: _ChatClient, message_id: str | None) -> None:
        chat = await self._chats.find(request, message_id)
        fields = {"conversation_id": chat.conversation.id, "items": request.items, "message_id": message_id}
        message = parse(Message, {**fields, "output_schema": request.output_schema})
        form = self._form(request)
        with self._chats.answering(chat):
            submission = chat.conversation.submit(message, follow=request.stream)
            if request.stream:
                await client.begin(request)
                text, reply = await client.stream(chat, submission, form)
            else:
                reply = await submission.reply()
                text = reply.text or ""
            if reply.status == "completed":
                self._chats.remember(request, chat, text, form.id)
        await client.finish(request, form, text, reply)


def _idempotency_key(scope: Scope) -> str | None:
    """The id of the message, where a client sends one so that a request that is sent again runs nothing twice."""
    for name, value in scope["headers"]:
        if name == b"idempotency-key":
            return value.decode("latin-1") or None
    return None


class _ChatClient:
    """The connection of the client that waits for an answer."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._is_streaming = False

    async def begin(self, request: ChatRequest) -> None:
        """Begin a stream, of which nothing is said yet."""
        await self._start(200, [_SPEECH, *_ignored(request)])
        self._is_streaming = True

    async def stream(self, chat: OpenChat, submission: Submission, form: AnswerForm) -> tuple[str, Reply]:
        """Send the words as they come; returns them all, and how the task ended."""
        shown = ShownText()
        for line in form.begin():
            await self._body(line)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(self._break_silence())
            try:
                async with aclosing(submission.events()) as events:
                    async for event in events:
                        if event.conversation_id == chat.conversation.id and (piece := shown.add(event.data)):
                            for line in form.piece(piece):
                                await self._body(line)
            finally:
                waiting.cancel()
        reply = await submission.reply()
        if not shown.text and reply.text and reply.status == "completed":
            # The same message was sent again when it was over: its events have passed.
            for line in form.piece(reply.text):
                await self._body(line)
        return shown.text or reply.text or "", reply

    async def finish(self, request: ChatRequest, form: AnswerForm, text: str, reply: Reply) -> None:
        """The end of the answer, or why there is none."""
        code, message = _problem(reply)
        if reply.status != "completed" and not self._is_streaming:
            await self.refuse(500, describe_error(code, message))
            return
        if not self._is_streaming:
            await self._start(200, [(b"content-type", b"application/json"), *_ignored(request)])
            await self._body(msgspec.json.encode(form.whole(text, reply.usage)), more=False)
            return
        lines = (
            form.end(text, reply.usage) if reply.status == "completed" else form.failure(describe_error(code, message))
        )
        for line in lines:
            await self._body(line)
        await self._body(b"", more=False)

    async def refuse(self, status: int, error: dict[str, Any]) -> None:
        """Answer with an error, where no answer has begun; else end the stream."""
        if self._is_streaming:
            await self._body(b"data: %b\n\n" % msgspec.json.encode({"error": error}), more=False)
            return
        await self._start(status, [(b"content-type", b"application/json"), _NO_RETRY])
        await self._body(msgspec.json.encode({"error": error}), more=False)

    async def _break_silence(self) -> None:
        while True:
            await asyncio.sleep(SILENCE_S)
            await self._body(WAITING)

    async def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _body(self, data: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})


def _ignored(request: ChatRequest) -> list[tuple[bytes, bytes]]:
    names = ", ".join(name for name in request.ignored if name.isascii() and name.isidentifier())[:1_000]
    return [(b"x-tertulia-ignored", names.encode())] if names else []


def _problem(reply: Reply) -> tuple[str, str]:
    if reply.error is not None:
        return reply.error.code, reply.error.message
    return "interrupted", "the task was interrupted before it was done"
