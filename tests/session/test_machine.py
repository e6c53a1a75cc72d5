"""Any order of everything a user can do: the session's promises hold after each step and at the end."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

import tertulia
from tertulia.errors import TertuliaError
from tertulia.history.sanitiser import prove
from tertulia.models.scripted.script import ScriptedRequest
from tertulia.protocol.events import Event
from tertulia.testing import ScriptedModel, ScriptedReply, call, check_invariants, fail, say
from tests.deadlines import HANG_S
from tests.thorough import times

TICKS = 60


@tertulia.tool
async def note(text: str) -> str:
    """Repeat a text."""
    await asyncio.sleep(0)
    return text


@tertulia.tool
async def stuck() -> str:
    """Wait until somebody stops it."""
    await asyncio.get_running_loop().create_future()
    return "never"


@tertulia.tool
def broken() -> str:
    """Fail."""
    raise ValueError("broken on purpose")


REPLIES: dict[str, list[Any]] = {
    "plain": [say("done")],
    "silent": [say("")],
    "tools": [say("", call("note", {"text": "a"}), call("broken")), say("after tools")],
    "same id": [say("", call("note", {"text": "a"}, "c1"), call("note", {"text": "b"}, "c1")), say("once")],
    "unknown tool": [say("", call("nope"), call("note", "{not json")), say("refused")],
    "stuck tool": [say("", call("stuck"), call("note", {"text": "later"})), say("never reached?")],
    "fails": [fail("no such luck")],
    "overflow": [fail("too long", overflow=True), say("fits now")],
    "cut": [ScriptedReply(text="half an ans", cut=True)],
    "raises": [RuntimeError("a wire that breaks its contract")],
    "retries": [ScriptedReply(text="whole answer", retrying="once more")],
    "slow": [ScriptedReply(text="at last", gate=asyncio.Event())],
}


class SessionMachine(RuleBasedStateMachine):
    conversations = Bundle("conversations")

    def __init__(self) -> None:
        super().__init__()
        # Wires that break their contract are logged with a traceback, which is right and, here, a flood.
        logging.getLogger("tertulia.scheduler.task_runner").disabled = True
        self.loop = asyncio.new_event_loop()
        self.replies: deque[Any] = deque()
        self.gates: list[asyncio.Event] = []
        self.waiting: list[asyncio.Task[Any]] = []
        self.events: list[Event] = []

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        async def bounded() -> Any:
            async with asyncio.timeout(HANG_S):
                return await work

        return self.loop.run_until_complete(bounded())

    def reply(self, request: ScriptedRequest) -> Any:
        if not self.replies:
            return say("nothing planned")
        reply = self.replies.popleft()
        if isinstance(reply, ScriptedReply) and reply.gate is not None:
            gate = asyncio.Event()
            self.gates.append(gate)
            return ScriptedReply(text=reply.text, gate=gate)
        return reply

    @initialize(target=conversations)
    def start(self) -> str:
        async def begin() -> str:
            model = ScriptedModel([self.reply], repeat=True)
            chosen = tertulia.Settings(
                model=model, tools=[note, stuck, broken], limits={"max_history_items": 40}, close_timeout_s=5
            )
            self.session = await tertulia.Session.start(chosen).__aenter__()
            self.news = self.session.parts.bus.subscribe(limit=100_000)
            return self.session.root.id

        return self.run(begin())

    def attempt(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return self.run(work)
        except TertuliaError:
            return None

    @rule(target=conversations, plan=st.booleans(), sandbox=st.sampled_from([None, "read-only", "danger-full-access"]))
    def open(self, plan: bool, sandbox: str | None) -> str:
        return self.run(self.session.open(include_plan_tool=plan, sandbox=sandbox)).id

    @rule(conversation=conversations, kind=st.sampled_from(sorted(REPLIES)), key=st.sampled_from([None, "m1", "m2"]))
    def message(self, conversation: str, kind: str, key: str | None) -> None:
        async def send() -> None:
            try:
                handle = self.session.conversation(conversation)
            except TertuliaError:
                return
            self.replies.extend(REPLIES[kind])
            self.waiting.append(self.loop.create_task(handle.message(kind, message_id=key)))

        self.run(send())

    @rule(conversation=conversations)
    def busy_message(self, conversation: str) -> None:
        async def send() -> Any:
            return await self.session.conversation(conversation).message("now or never", if_busy="fail")

        async def bounded() -> None:
            self.waiting.append(self.loop.create_task(send()))

        self.run(bounded())

    @rule(conversation=conversations)
    def steer(self, conversation: str) -> None:
        async def steer() -> None:
            await self.session.conversation(conversation).steer("also this")

        self.attempt(steer())

    @rule(conversation=conversations)
    def interrupt(self, conversation: str) -> None:
        async def interrupt() -> None:
            await self.session.conversation(conversation).interrupt()

        self.attempt(interrupt())

    @rule(conversation=conversations)
    def compact(self, conversation: str) -> None:
        async def compact() -> None:
            handle = self.session.conversation(conversation)
            self.waiting.append(self.loop.create_task(handle.compact()))

        self.attempt(compact())

    @rule(conversation=conversations, text=st.sampled_from([None, "be kind", "be brief"]))
    def set_context(self, conversation: str, text: str | None) -> None:
        async def change() -> None:
            await self.session.conversation(conversation).set_context(base_instructions=text, user_instructions=text)

        self.attempt(change())

    @rule(target=conversations, conversation=conversations)
    def fork(self, conversation: str) -> Any:
        async def fork() -> str:
            return (await self.session.conversation(conversation).fork()).id

        forked = self.attempt(fork())
        return multiple() if forked is None else forked

    @rule(conversation=consumes(conversations))
    def close(self, conversation: str) -> None:
        async def close() -> None:
            self.waiting.append(self.loop.create_task(self.session.conversation(conversation).close()))
            await self.tick(3)

        self.attempt(close())

    @rule(number=st.integers(0, 3))
    def give_up(self, number: int) -> None:
        """A caller cancels its own wait."""

        async def cancel() -> None:
            pending = [task for task in self.waiting if not task.done()]
            if number < len(pending):
                pending[number].cancel()
            await self.tick(2)

        self.run(cancel())

    @rule()
    def open_gates(self) -> None:
        async def open_all() -> None:
            for gate in self.gates:
                gate.set()
            self.gates.clear()
            await self.tick(TICKS)

        self.run(open_all())

    @rule(ticks=st.integers(1, TICKS))
    def let_it_run(self, ticks: int) -> None:
        self.run(self.tick(ticks))

    async def tick(self, count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    @invariant()
    def one_task_runs_and_histories_are_paired(self) -> None:
        if not hasattr(self, "session"):
            return
        parts = self.session.parts
        assert len(parts.registry) <= 1
        running = [conversation for conversation in parts.conversations if conversation.task is not None]
        assert len(running) <= 1
        for conversation in parts.conversations:
            opens, closes = prove(conversation.history.snapshot())
            assert not closes
            assert not opens or conversation.task is not None or conversation.awaiting
        while (event := self.news.next_nowait()) is not None:
            self.events.append(event)

    def teardown(self) -> None:
        if hasattr(self, "session"):
            self.run(self._finish())
        logging.getLogger("tertulia.scheduler.task_runner").disabled = False
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    async def _finish(self) -> None:
        parts = self.session.parts
        await self.session.close(timeout=5)
        results = await asyncio.gather(*self.waiting, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                assert isinstance(result, TertuliaError | asyncio.CancelledError), repr(result)
        while (event := self.news.next_nowait()) is not None:
            self.events.append(event)
        check_invariants(self.events)
        assert len(parts.registry) == 0
        assert len(parts.nursery) == 0
        assert not parts.scheduler.active
        assert not parts.scheduler.queued()
        for conversation in parts.conversations:
            assert prove(conversation.history.snapshot()) == ((), ())


SessionMachine.TestCase.settings = settings(
    max_examples=times(2_000, 50), stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestAnyOrder = pytest.mark.timeout(300)(SessionMachine.TestCase)
