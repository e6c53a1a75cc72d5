"""The provider on loopback, for every wire that ACP agents speak: what it answers, and what they had said."""

from __future__ import annotations

import json
from typing import Any

from tests.agents.provider import Provider, called, messages, responses
from tests.deadlines import HANG_S

Events = list[tuple[str, dict[str, Any]]]
Call = tuple[str, dict[str, Any]]


class Wires:
    """Makes the provider answer each by its own wire. Requests that are no turn of the conversation are not kept."""

    def __init__(self, mock: Provider) -> None:
        self.bodies = mock.bodies
        self.calls: list[Call] = []
        """Tools that are asked for first, one in each answer."""
        self._mock = mock
        mock.take = self.take  # type: ignore[method-assign]

    def take(self, path: str, body: str) -> Events:
        """The events of the answer."""
        request = json.loads(body)
        if not request.get("tools"):
            return _said(path, "a title")
        self.bodies.append(body)
        answer = self._mock.answer
        self._mock.going.wait(HANG_S)
        if self.calls:
            return _called(path, *self.calls.pop(0))
        return _said(path, answer)


def _said(path: str, answer: str) -> Events:
    if "chat/completions" in path:
        return _chat({"role": "assistant", "content": answer}, "stop")
    if "GenerateContent" in path:
        return _gemini({"text": answer})
    return responses(answer) if path.startswith("/v1/responses") else messages(answer)


def _called(path: str, name: str, arguments: dict[str, Any]) -> Events:
    if "chat/completions" in path:
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"index": 0, "id": "call-1", "type": "function", "function": function}
        return _chat({"role": "assistant", "tool_calls": [call]}, "tool_calls")
    if "GenerateContent" in path:
        return _gemini({"functionCall": {"name": name, "args": arguments}})
    place, _, tool = name.rpartition("::")
    return called(path, {"name": tool, "arguments": arguments} | ({"namespace": place} if place else {}))


def _chat(delta: dict[str, Any], reason: str) -> Events:
    base = {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "mock"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return [
        ("", {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}),
        ("", {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}),
    ]


def _gemini(part: dict[str, Any]) -> Events:
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    return [("", {"candidates": [candidate], "usageMetadata": usage})]


def conversation_of(body: str) -> str:
    """What was said, without ids, in whatever wire."""
    request = json.loads(body)
    items = request.get("input") or request.get("messages") or request["contents"]
    for item in items:
        item.pop("id", None)
    return json.dumps(items)
