"""Writes answers as the OpenAI API does: chat completions, responses, their pieces as events, and errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from tertulia.errors import TertuliaError
from tertulia.protocol.events import AgentMessage, AgentMessageDelta, BackgroundEvent, EventData
from tertulia.protocol.ids import ItemId, new_item_id
from tertulia.protocol.items import Usage
from tertulia.server.openai.requests import ChatRequest

Json = dict[str, Any]
DONE = b"data: [DONE]\n\n"
_STATUS = {
    "invalid_params": 400,
    "not_found": 404,
    "closed": 404,
    "busy": 409,
    "limit": 429,
    "too_large": 413,
}


class ShownText:
    """What a client is shown of an answer, piece by piece: every message of the conversation, with a line between."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._item: ItemId | None = None
        self._sent = 0

    @property
    def text(self) -> str:
        """All of it so far."""
        return "".join(self._pieces)

    def add(self, data: EventData) -> str:
        """The piece that an event adds; empty where it adds none."""
        match data:
            case AgentMessageDelta():
                return self._piece(data.item_id, data.text, data.offset)
            case AgentMessage():
                sent = self._sent if data.item_id == self._item else 0
                return self._piece(data.item_id, data.text[sent:], sent)
            case BackgroundEvent(discard_deltas=True):
                # What was shown cannot be taken back; the new attempt begins a line of its own.
                self._item = None
                return ""
            case _:
                return ""

    def _piece(self, item: ItemId, text: str, offset: int) -> str:
        if not text:
            return ""
        separator = "\n\n" if self._pieces and item != self._item else ""
        self._item, self._sent = item, offset + len(text)
        self._pieces.append(separator + text)
        return separator + text


class AnswerForm(Protocol):
    """One of the two protocols: how an answer to one request is written."""

    id: str

    def begin(self) -> Iterator[bytes]:
        """What a stream begins with."""
        ...

    def piece(self, text: str) -> Iterator[bytes]:
        """What a stream has for the next words of the answer."""
        ...

    def end(self, text: str, usage: Usage) -> Iterator[bytes]:
        """What a stream ends with."""
        ...

    def failure(self, error: Json) -> Iterator[bytes]:
        """What a stream ends with where the task failed."""
        ...

    def whole(self, text: str, usage: Usage) -> Json:
        """The answer of a request that does not stream."""
        ...


class ChatCompletion:
    """Writes answers to `/v1/chat/completions`: an `AnswerForm`."""

    def __init__(self, request: ChatRequest, created: int) -> None:
        self.id = f"chatcmpl-{new_item_id()}"
        self._request = request
        self._created = created

    def begin(self) -> Iterator[bytes]:
        """A piece with the role."""
        yield self._chunk({"role": "assistant", "content": ""})

    def piece(self, text: str) -> Iterator[bytes]:
        """A piece with the next words of the answer."""
        yield self._chunk({"content": text})

    def end(self, text: str, usage: Usage) -> Iterator[bytes]:
        """The last piece, the tokens where the client asks for them, and the end of the stream."""
        yield self._chunk({}, finish="stop")
        if self._request.include_usage:
            yield _data({**self._envelope("chat.completion.chunk"), "choices": [], "usage": _chat_usage(usage)})
        yield DONE

    def failure(self, error: Json) -> Iterator[bytes]:
        """The error in place of the end: a stream without `[DONE]` is no whole answer."""
        yield _data({"error": error})

    def whole(self, text: str, usage: Usage) -> Json:
        """A chat completion with one choice."""
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        return {**self._envelope("chat.completion"), "choices": [choice], "usage": _chat_usage(usage)}

    def _envelope(self, kind: str) -> Json:
        return {"id": self.id, "object": kind, "created": self._created, "model": self._request.model}

    def _chunk(self, delta: Json, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return _data({**self._envelope("chat.completion.chunk"), "choices": [choice]})


class ResponseAnswer:
    """Writes answers to `/v1/responses`: an `AnswerForm`."""

    def __init__(self, request: ChatRequest, created: int) -> None:
        self.id = f"resp_{new_item_id()}"
        self._request = request
        self._created = created
        self._item = f"msg_{new_item_id()}"
        self._number = 0

    def begin(self) -> Iterator[bytes]:
        """The response in progress, with one message that is empty."""
        for kind in ("response.created", "response.in_progress"):
            yield self._event(kind, {"response": self._response("in_progress", [], None)})
        started: Json = {
            "id": self._item,
            "type": "message",
            "status": "in_progress",
            "role": "assistant",
            "content": [],
        }
        yield self._event("response.output_item.added", {"output_index": 0, "item": started})
        yield self._event("response.content_part.added", {**self._place(), "part": _output_text("")})

    def piece(self, text: str) -> Iterator[bytes]:
        """The next words of the message."""
        yield self._event("response.output_text.delta", {**self._place(), "delta": text, "logprobs": []})

    def end(self, text: str, usage: Usage) -> Iterator[bytes]:
        """The message as a whole, then the response."""
        yield self._event("response.output_text.done", {**self._place(), "text": text, "logprobs": []})
        yield self._event("response.content_part.done", {**self._place(), "part": _output_text(text)})
        yield self._event("response.output_item.done", {"output_index": 0, "item": self._message(text)})
        yield self._event("response.completed", {"response": self.whole(text, usage)})

    def failure(self, error: Json) -> Iterator[bytes]:
        """The response as one that failed."""
        failed = self._response("failed", [], None)
        failed["error"] = {"code": error["code"], "message": error["message"]}
        yield self._event("response.failed", {"response": failed})

    def whole(self, text: str, usage: Usage) -> Json:
        """A response with one message as its output."""
        return self._response("completed", [self._message(text)], _response_usage(usage))

    def _message(self, text: str) -> Json:
        content = [_output_text(text)]
        return {"id": self._item, "type": "message", "status": "completed", "role": "assistant", "content": content}

    def _place(self) -> Json:
        return {"item_id": self._item, "output_index": 0, "content_index": 0}

    def _response(self, status: str, output: list[Json], usage: Json | None) -> Json:
        return {
            "id": self.id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": self._request.instructions or None,
            "model": self._request.model,
            "output": output,
            "parallel_tool_calls": True,
            "previous_response_id": self._request.previous,
            "tool_choice": "auto",
            "tools": [],
            "metadata": {},
            "usage": usage,
        }

    def _event(self, kind: str, fields: Json) -> bytes:
        number, self._number = self._number, self._number + 1
        body = msgspec.json.encode({"type": kind, "sequence_number": number, **fields})
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), body)


def model_entry(name: str, created: int) -> Json:
    """A model as `/v1/models` lists it."""
    return {"id": name, "object": "model", "created": created, "owned_by": "tertulia"}


def describe_error(code: str, message: str) -> Json:
    """An error as clients of this API read it."""
    kind = "invalid_request_error" if _STATUS.get(code, 500) < 500 else "server_error"
    return {"message": message, "type": kind, "param": None, "code": code}


def error_status(error: TertuliaError) -> int:
    """The HTTP status of a request that is refused."""
    return _STATUS.get(error.code, 500)


def _data(value: Json) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(value)


def _output_text(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _chat_usage(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_input_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_output_tokens},
    }


def _response_usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_input_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_output_tokens},
        "total_tokens": usage.total_tokens,
    }
