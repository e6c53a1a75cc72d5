"""Random small sessions whose every event follows from a seed: one version of the scheduler is compared with another.

Nothing depends on how many steps of the loop something takes: what meddles with a chain does so from inside a
model's answer that comes only when it was meddled with.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from typing import Any

import msgspec

import tertulia
from tertulia.errors import TertuliaError
from tertulia.events.journal import NoJournal
from tertulia.models.scripted.script import ScriptedRequest
from tertulia.protocol.events import Event
from tertulia.testing import ScriptedModel, call, fail, say
from tests.deadlines import HANG_S

ACTS = ("say", "say", "fail", "list", "create", "create two", "send", "send two", "send twice", "fork", "destroy")
MEDDLING = ("interrupt", "close", "cancel", "deadline")
NEW = {"user_instruction": "do it"}
TEXT = {"text": "please"}
LIMITS = {
    "max_interrupt_chain_depth": 3,
    "max_task_interrupts": 12,
    "max_chain_conversations": 6,
    "max_conversations": 9,
}
_LEFT_OUT = {
    "phase",
    "ts",
    "elapsed_ms",
    "duration_ms",
    "started_at",
    "trace_id",
    "span_id",
    "session_id",
    "item_id",
    "usage",
    "output",
    "message",
    "model",
}
"""Times, ids that are no part of the order, and words that may be chosen anew."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|\b[0-9a-f]{16}\b")
_PASSED_OVER = ("token_count", "warning", "user_message", "message_queued")
"""Warnings and messages had no events when the sequences were recorded."""


class SerialWorld:
    """One session, three conversations, five messages; all choices come from one generator."""

    def __init__(self, seed: int, slots: int = 1) -> None:
        self.rng = random.Random(seed)
        self.slots = slots
        self.acts = 0
        self.meddlers: list[asyncio.Task[Any]] = []

    def reply(self, request: ScriptedRequest) -> Any:
        """What the model answers: drawn, and nothing new after forty answers, so that every world ends."""
        self.acts += 1
        act = self.rng.choice(ACTS + MEDDLING) if self.acts < 40 else "say"
        number = self.rng.randrange(6)
        if act in MEDDLING:
            gate = asyncio.Event()
            self.meddlers.append(asyncio.create_task(self.meddle(act, number, gate)))
            return say("at last", gate=gate)
        first, second = ({"conversation_id": self.pick(number + n), **TEXT} for n in (0, 1))
        answers: dict[str, Any] = {
            "say": say(f"answer {self.acts}"),
            "fail": fail("no such luck"),
            "list": say("", call("conv_list")),
            "create": say("I ask.", call("conv_create", NEW)),
            "create two": say("", call("conv_create", NEW), call("conv_create", NEW)),
            "send": say("", call("conv_send", first)),
            "send two": say("", call("conv_send", first), call("conv_send", second)),
            "send twice": say("", call("conv_send", first), call("conv_send", first)),
            "fork": say("", call("conv_create", {**NEW, "fork_history": "all"})),
            "destroy": say("", call("conv_destroy", {"conversation_id": self.pick(number)})),
        }
        return answers[act]

    def pick(self, number: int) -> str:
        """The id of one of the open conversations."""
        conversations = list(self.session.parts.conversations)
        return conversations[number % len(conversations)].id

    async def meddle(self, act: str, number: int, gate: asyncio.Event) -> None:
        """Stop something, then let the model that waits go on."""
        with contextlib.suppress(TertuliaError):
            match act:
                case "interrupt":
                    await self.session.conversation(self.pick(number)).interrupt()
                case "close":
                    await self.session.conversation(self.pick(number)).close()
                case "cancel":
                    tasks = self.session.activity.tasks
                    self.session.activity.cancel(tasks[number % len(tasks)].task_id)
                case _:
                    await self.session.conversation(self.pick(number)).set_context(include_plan_tool=False)
        gate.set()

    async def play(self) -> list[Event]:
        """All events of the session, in order."""
        settings = tertulia.Settings(
            model=ScriptedModel([self.reply], repeat=True), limits=LIMITS, close_timeout_s=HANG_S / 2
        )
        async with tertulia.Session.start(settings, journal=NoJournal()) as self.session:
            news = self.session.parts.bus.subscribe(limit=100_000)
            for _ in range(2):
                await self.session.open()
            numbers = [self.rng.randrange(3) for _ in range(5)]
            async with asyncio.timeout(HANG_S):
                await asyncio.gather(
                    *(self.session.conversation(self.pick(number)).message(f"m{number}") for number in numbers),
                    return_exceptions=True,
                )
                await asyncio.gather(*self.meddlers)
        events = []
        while (event := news.next_nowait()) is not None:
            events.append(event)
        return events


def as_lines(events: list[Event]) -> list[str]:
    """The events as text, ids replaced by their order of appearance, times left out."""
    names: dict[str, str] = {}
    lines = []
    for event in events:
        if event.type in _PASSED_OVER:
            continue
        built = {**msgspec.to_builtins(event), "seq": None}
        text = _TIME.sub("time", msgspec.json.encode(_comparable(built)).decode())
        lines.append(_ID.sub(lambda found: names.setdefault(found[0], f"id{len(names)}"), text))
    return lines


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _comparable(inner) for key, inner in value.items() if key not in _LEFT_OUT} | _outcome(value)
    return [_comparable(inner) for inner in value] if isinstance(value, list) else value


def _outcome(data: dict[str, Any]) -> dict[str, Any]:
    """What a conversation tool answered, without its words."""
    try:
        answer = msgspec.json.decode(data.get("output", ""))
    except msgspec.DecodeError:
        return {}
    return {"output": {key: answer.get(key) for key in ("ok", "status", "code", "conversation_id")}}
