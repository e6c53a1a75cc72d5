"""A session whose conversations follow a plot, and the whole of what it told, as lines to compare."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import tertulia
from tertulia.models.scripted.script import ScriptedCall
from tertulia.protocol.events import Event
from tertulia.testing import ScriptedModel, call, say
from tests.session.staging import Stage, stage


class Play(Stage):
    """A stage with replies that are written when the ids of the conversations are known."""

    replies: list[Any]
    begins: int = 0

    def write(self, *replies: Any) -> None:
        """What the model says next, whoever asks it."""
        self.replies.extend(replies)

    def name(self, conversation_id: object) -> str:
        """A is the root, B the first that was opened after it, and so on."""
        order = [e.conversation_id for e in self.events.drain() if e.type == "conversation_opened"]
        return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[1 + order.index(conversation_id)] if conversation_id in order else "A"

    def mark(self) -> None:
        """The score begins here."""
        self.begins = len(self.events.drain())

    def score(self) -> list[str]:
        """Every durable event since the mark, as a line."""
        events = self.events.drain()[self.begins :]
        return [f"{self.name(e.conversation_id)} {_line(e)}" for e in events if e.seq is not None]

    def heard(self, conversation: tertulia.Conversation | None = None) -> list[dict[str, Any]]:
        """The outputs in a conversation's history, as what they say; each says with `ok` whether it was a success."""
        heard: list[dict[str, Any]] = []
        for output in self.outputs(conversation or self.root):
            answer = json.loads(output.text)
            assert answer["ok"] is output.success, output
            heard.append(answer)
        return heard

    def ids(self) -> list[str]:
        return [conversation.id for conversation in self.session.conversations()]


def _line(event: Event) -> str:
    data: Any = event.data
    match event.type:
        case "task_started":
            return f"task_started {data.kind}"
        case "user_message":
            return "user_message" if data.how == "message" else f"user_message {data.how}"
        case "task_complete":
            return f"task_complete {data.status} {data.last_assistant_message!r}"
        case "turn_aborted":
            return f"turn_aborted {data.reason}" + (f" by {data.by_call_id}" if data.by_call_id else "")
        case "agent_message":
            return f"agent_message {data.text!r}"
        case "tool_call_begin":
            return f"tool_call_begin {data.call_id} {data.name}"
        case "tool_call_end":
            return f"tool_call_end {data.call_id} {'ok' if data.success else _code(data.output)}"
        case "error":
            return f"error {data.code}"
        case kind:
            return kind


def _code(output: str) -> str:
    answer = json.loads(output)
    assert answer["ok"] is False
    assert answer["reason"]
    return answer["code"]


@asynccontextmanager
async def play(*replies: Any, invariants: bool = True, **settings: Any) -> AsyncIterator[Play]:
    """A session of conversations that share one model."""
    written = list(replies)

    def following(request: Any) -> Any:
        reply = written.pop(0) if written else say("nothing planned")
        return reply(request) if callable(reply) else reply

    model = ScriptedModel([following], repeat=True)
    async with stage(model=model, invariants=invariants, **settings) as on:
        acting = Play(on.session, on.model, on.events)
        acting.begun = on.begun
        acting.replies = written
        acting.mark()
        yield acting


def create(call_id: str = "c1", task: str = "do it", **arguments: Any) -> ScriptedCall:
    return call("conv_create", {"user_instruction": task, **arguments}, call_id)


def send(to: Any, call_id: str = "c1", text: str = "please", **arguments: Any) -> ScriptedCall:
    target = to if isinstance(to, str) else to.id
    return call("conv_send", {"conversation_id": target, "text": text, **arguments}, call_id)


def destroy(what: Any, call_id: str = "c1") -> ScriptedCall:
    return call("conv_destroy", {"conversation_id": what if isinstance(what, str) else what.id}, call_id)
