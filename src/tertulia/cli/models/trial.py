"""Tries a model: one streamed answer and one tool call in a session of its own, both timed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

import msgspec

import tertulia
from tertulia.events.clock import Clock, SystemClock
from tertulia.events.journal import NoJournal
from tertulia.models.catalog import model_facts
from tertulia.protocol.events import AgentMessageDelta, AgentReasoningDelta, ErrorEvent, TaskComplete, TurnAborted
from tertulia.protocol.items import NO_USAGE, Usage
from tertulia.session.handle import Conversation
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings

_INSTRUCTIONS = "You are a helpful assistant. Be brief."
_GREET = "Say hello in one short sentence."
_CALL = "Which table is reserved for Ana? Call the tool `reserved_table` with her name, then answer with the number."
_PERSON, _TABLE = "Ana", 4217


class TimedAnswer(msgspec.Struct, frozen=True):
    """One message and its answer."""

    text: str
    error: str | None
    """Why there is no answer."""
    first_s: float | None
    """Until the first piece of it."""
    total_s: float
    usage: Usage

    @property
    def timings(self) -> str:
        """The times as one line of text."""
        if self.first_s is None:
            return f"{self.total_s:.2f} s in all, {self.usage.output_tokens} tokens"
        speed = self.usage.output_tokens / max(self.total_s - self.first_s, 0.001)
        return (
            f"first piece after {self.first_s:.2f} s, all after {self.total_s:.2f} s, "
            f"{self.usage.output_tokens} tokens, {speed:.0f} a second"
        )


class ModelTrial(msgspec.Struct, frozen=True):
    """The outcome of the answer and, if the model is offered tools, of the tool call."""

    answer: TimedAnswer
    tool_call: TimedAnswer | None
    """None: it was not tried, because the model is offered no tools or gave no answer."""
    tool_error: str | None = None

    @property
    def passed(self) -> bool:
        """Whether everything worked that was tried."""
        return self.answer.error is None and self.tool_error is None


async def try_model(settings: Settings, clock: Clock | None = None) -> ModelTrial:
    """Try the model of these settings; everything else of them is left out. Stores nothing."""
    calls: list[str] = []

    @tertulia.tool(read_only=True)
    def reserved_table(name: str) -> int:
        """The number of the table that is reserved for a person."""
        calls.append(name)
        return _TABLE

    clock = clock or SystemClock()
    tried = Settings(
        model=settings.model,
        model_providers=settings.model_providers,
        storage_policy="none",
        sandbox="read-only",
        tools=(reserved_table,),
        include_plan_tool=False,
        include_conv_tools=False,
        include_apply_patch_tool=False,
        shell_mode="none",
    )
    async with Session.start(tried, journal=NoJournal()) as session:
        conversation = await session.open(base_instructions=_INSTRUCTIONS)
        answer = await _time(conversation, _GREET, clock)
        if answer.error is not None or not model_facts(conversation.info.model).tools:
            return ModelTrial(answer, None)
        called = await _time(conversation, _CALL, clock)
    return ModelTrial(answer, called, called.error or _judge(calls))


async def _time(conversation: Conversation, text: str, clock: Clock) -> TimedAnswer:
    started = clock.monotonic()
    first_s: float | None = None
    answer, error, usage = "", None, NO_USAGE
    async with aclosing(conversation.stream(text)) as events:
        async for event in events:
            match event.data:
                case AgentMessageDelta() | AgentReasoningDelta() if first_s is None:
                    first_s = clock.monotonic() - started
                case ErrorEvent(_, message):
                    error = message
                case TaskComplete(_, last, spent):
                    answer, usage = last or "", spent
                case TurnAborted(reason):
                    error = f"it was stopped ({reason})"
                case _:
                    pass
    return TimedAnswer(answer, error, first_s, clock.monotonic() - started, usage)


def _judge(calls: Sequence[str]) -> str | None:
    """What is wrong with the calls that were made; None when nothing is."""
    if not calls:
        return "it answered without calling the tool"
    return None if _PERSON in calls else f"it called the tool with another argument than {_PERSON!r}"
