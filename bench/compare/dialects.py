"""What the mock provider reads in a request and writes as an answer, a class for each API.

A request is read down to what the answer depends on: the last message. The same text is answered in the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol

ANSWER = "It is as you say: the work is done, and nothing is left to be looked at. " * 4
USAGE = {"prompt_tokens": 100, "completion_tokens": 60, "total_tokens": 160}

Call = tuple[str, str, str]
"""The id, the name and the arguments, as JSON, of a tool call."""
Body = dict[str, Any]


class Dialect(Protocol):
    """One API of model providers."""

    def last_text(self, body: Body) -> str | None:
        """The text of the last message; None where that is the output of a tool."""
        ...

    def last_output(self, body: Body) -> str:
        """The last message as JSON, where it is the output of a tool."""
        ...

    def tool_names(self, body: Body) -> Sequence[str]:
        """The tools that the model may call."""
        ...

    def whole(self, calls: Sequence[Call]) -> Body:
        """The answer as one object: these calls, or the text where there are none."""
        ...

    def events(self, calls: Sequence[Call]) -> Iterator[bytes]:
        """The same as a stream of events."""
        ...


class ChatCompletions:
    """OpenAI's Chat Completions, which most peers speak."""

    _HEAD: ClassVar[Body] = {"id": "chatcmpl-1", "created": 1, "model": "gpt-4.1"}

    def last_text(self, body: Body) -> str | None:
        message = body["messages"][-1]
        return None if message["role"] == "tool" else _text(message["content"])

    def last_output(self, body: Body) -> str:
        return json.dumps(body["messages"][-1]["content"])

    def tool_names(self, body: Body) -> Sequence[str]:
        return [tool["function"]["name"] for tool in body.get("tools") or () if "function" in tool]

    def whole(self, calls: Sequence[Call]) -> Body:
        message: Body = {"role": "assistant", "content": None if calls else ANSWER, "refusal": None}
        if calls:
            message["tool_calls"] = [_chat_call(call) for call in calls]
        choice = {"index": 0, "message": message, "finish_reason": _chat_end(calls), "logprobs": None}
        return {**self._HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE}

    def events(self, calls: Sequence[Call]) -> Iterator[bytes]:
        delta: Body = {"role": "assistant", "content": None if calls else ANSWER}
        if calls:
            delta["tool_calls"] = [{"index": index, **_chat_call(call)} for index, call in enumerate(calls)]
        yield self._event([{"index": 0, "delta": delta, "finish_reason": None}])
        yield self._event([{"index": 0, "delta": {}, "finish_reason": _chat_end(calls)}])
        yield self._event([], usage=USAGE)
        yield b"data: [DONE]\n\n"

    def _event(self, choices: list[Body], **more: Any) -> bytes:
        return _data({**self._HEAD, "object": "chat.completion.chunk", "choices": choices, **more})


class Responses:
    """OpenAI's Responses, which Codex speaks."""

    def last_text(self, body: Body) -> str | None:
        items = body["input"]
        if isinstance(items, str):
            return items
        item = items[-1]
        return None if item.get("type", "message").endswith("_output") else _text(item["content"])

    def last_output(self, body: Body) -> str:
        return json.dumps(body["input"][-1]["output"])

    def tool_names(self, body: Body) -> Sequence[str]:
        """A tool of a namespace, as Codex offers those of MCP servers, is written `namespace/name`."""
        tools = body.get("tools") or ()
        named = [tool["name"] for tool in tools if "name" in tool]
        return [*named, *(f"{tool['name']}/{inner['name']}" for tool in tools for inner in tool.get("tools", ()))]

    def whole(self, calls: Sequence[Call]) -> Body:
        return self._response("completed", self._items(calls))

    def events(self, calls: Sequence[Call]) -> Iterator[bytes]:
        yield self._event("response.created", response=self._response("in_progress", []))
        items = self._items(calls)
        for index, item in enumerate(items):
            yield self._event("response.output_item.added", output_index=index, item={**item, "status": "in_progress"})
            if not calls:
                place = {"item_id": item["id"], "output_index": index, "content_index": 0}
                yield self._event("response.output_text.delta", **place, delta=ANSWER)
                yield self._event("response.output_text.done", **place, text=ANSWER)
            yield self._event("response.output_item.done", output_index=index, item=item)
        yield self._event("response.completed", response=self._response("completed", items))

    def _items(self, calls: Sequence[Call]) -> list[Body]:
        if not calls:
            content = [{"type": "output_text", "text": ANSWER, "annotations": []}]
            return [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}]
        return [self._call(call) for call in calls]

    def _call(self, call: Call) -> Body:
        id, path, arguments = call
        namespace, _, name = path.rpartition("/")
        place = {"namespace": namespace} if namespace else {}
        head = {"type": "function_call", "id": f"fc_{id}", "call_id": id, "status": "completed"}
        return {**head, "name": name, "arguments": arguments, **place}

    def _response(self, status: str, items: list[Body]) -> Body:
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        usage = {"input_tokens": 100, "output_tokens": 60, "total_tokens": 160, **details}
        head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-4.1", "parallel_tool_calls": True}
        return {**head, "status": status, "output": items, "tools": [], "tool_choice": "auto", "usage": usage}

    def _event(self, name: str, **fields: Any) -> bytes:
        return b"event: " + name.encode() + b"\n" + _data({"type": name, "sequence_number": 0, **fields})


class Gemini:
    """Google's generateContent, which the Agent Development Kit speaks by itself."""

    def last_text(self, body: Body) -> str | None:
        parts = body["contents"][-1]["parts"]
        return None if any("functionResponse" in part for part in parts) else _text(parts)

    def last_output(self, body: Body) -> str:
        return json.dumps(body["contents"][-1]["parts"][-1]["functionResponse"]["response"])

    def tool_names(self, body: Body) -> Sequence[str]:
        tools = body.get("tools") or ()
        return [function["name"] for tool in tools for function in tool.get("functionDeclarations", ())]

    def whole(self, calls: Sequence[Call]) -> Body:
        parts = [
            {"functionCall": {"id": id, "name": name, "args": json.loads(arguments)}} for id, name, arguments in calls
        ]
        content = {"role": "model", "parts": parts or [{"text": ANSWER}]}
        usage = {"promptTokenCount": 100, "candidatesTokenCount": 60, "totalTokenCount": 160}
        candidate = {"content": content, "finishReason": "STOP", "index": 0}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini"}

    def events(self, calls: Sequence[Call]) -> Iterator[bytes]:
        yield _data(self.whole(calls))


DIALECTS: Mapping[str, Dialect] = {
    "/chat/completions": ChatCompletions(),
    "/responses": Responses(),
    "enerateContent": Gemini(),  # :generateContent and :streamGenerateContent
}
"""By how the path ends."""


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content or ())


def _chat_call(call: Call) -> Body:
    id, name, arguments = call
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _chat_end(calls: Sequence[Call]) -> str:
    return "tool_calls" if calls else "stop"


def _data(value: Body) -> bytes:
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"
