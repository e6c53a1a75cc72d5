"""Any tree of conversations that delegate, fail, fall silent, destroy each other and are stopped: promises hold."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Coroutine
from functools import reduce
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import tertulia
from tertulia.errors import TertuliaError
from tertulia.events.journal import NoJournal
from tertulia.history.sanitiser import prove
from tertulia.models.scripted.script import ScriptedRequest
from tertulia.policy.narrowing import meet
from tertulia.protocol.events import Event
from tertulia.protocol.items import ToolCall, ToolOutput
from tertulia.testing import ScriptedModel, ScriptedReply, call, check_invariants, fail, say
from tests.deadlines import HANG_S
from tests.thorough import times

PLAIN = ("say", "silent", "fail", "cut", "slow", "look", "list", "odd")
HANDING = ("create", "create two", "create and look", "send", "send two", "fork", "destroy", "leave")
NEW = {"user_instruction": "do it"}
TEXT = {"text": "please"}
ACTS = st.tuples(st.sampled_from(PLAIN + HANDING * 3), st.integers(0, 5))
HOW = ("interrupt", "interrupt branch", "cancel branch", "close", "steer", "narrow", "hide")
LIMITS = {
    "max_interrupt_chain_depth": 3,
    "max_task_interrupts": 8,
    "max_chain_conversations": 5,
    "max_conversations": 8,
}


class Delegating(RuleBasedStateMachine):
    """A session whose model acts as it was drawn: H5, S004-13, S004-14, S004-18, S004-36, X-03, X-12, X-14, X-15."""

    def __init__(self) -> None:
        super().__init__()
        logging.getLogger("tertulia.scheduler.task_runner").disabled = True
        self.loop = asyncio.new_event_loop()
        self.acts: deque[tuple[str, int]] = deque()
        self.gates: list[asyncio.Event] = []
        self.waiting: list[asyncio.Task[Any]] = []
        self.events: list[Event] = []
        self.grown: list[str] = []

    # ---- the model

    def reply(self, asked: ScriptedRequest) -> Any:
        act, number = self.acts.popleft() if self.acts else ("say", 0)
        if act == "slow":
            self.gates.append(asyncio.Event())
            return say("at last", gate=self.gates[-1])
        if act == "leave":
            return say("", call("conv_destroy", {"conversation_id": asked.request.conversation_id}))
        target, other = ({"conversation_id": self.pick(number + n)} for n in (0, 1))
        narrow = {**NEW, "internal_tools": {"include_plan_tool": False}}
        said: dict[str, Any] = {
            "say": say("done"),
            "silent": say(""),
            "fail": fail("no such luck"),
            "cut": ScriptedReply(text="half", cut=True),
            "look": say("", call("look")),
            "list": say("", call("conv_list"), call("conv_history", target)),
            "odd": say("", call("conv_send", {"conversation_id": "nobody"}), call("conv_create", "{")),
            "create": say("I ask.", call("conv_create", NEW)),
            "create two": say("", call("conv_create", NEW), call("conv_create", NEW)),
            "create and look": say("", call("look"), call("conv_create", narrow), call("look")),
            "send": say("", call("conv_send", {**target, **TEXT})),
            "send two": say("", call("conv_send", {**target, **TEXT}), call("conv_send", {**other, **TEXT})),
            "fork": say("", call("conv_create", {**NEW, "fork_history": number or "all"})),
            "destroy": say("", call("conv_destroy", target)),
        }
        return said[act]

    def pick(self, number: int) -> str:
        conversations = list(self.session.parts.conversations)
        return conversations[number % len(conversations)].id

    def look_around(self, call: tertulia.CallContext) -> None:
        """A task has no right that one of the conversations that wait for it has not, and no sibling narrows it."""
        path = [self.session.parts.conversations.peek(id) for id in (*call.chain.callers, call.conversation_id)]
        known = [conversation.terms.rights for conversation in path if conversation is not None]
        if call.rights != reduce(meet, known):
            self.grown.append(call.conversation_id)

    # ---- what a user does

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        async def bounded() -> Any:
            async with asyncio.timeout(HANG_S):
                return await work

        return self.loop.run_until_complete(bounded())

    def attempt(self, work: Coroutine[Any, Any, Any]) -> None:
        async def tried() -> None:
            with contextlib.suppress(TertuliaError):
                await work

        self.run(tried())

    @initialize(narrow=st.booleans(), slots=st.sampled_from([1, 2, 3, 8]))
    def start(self, narrow: bool, slots: int) -> None:
        self.slots = slots

        @tertulia.tool
        async def look(call: tertulia.CallContext) -> str:
            """Look at the rights."""
            self.look_around(call)
            return "looked"

        async def begin() -> None:
            model = ScriptedModel([self.reply], repeat=True)
            chosen = tertulia.Settings(model=model, tools=[look], limits=LIMITS, slots=slots, close_timeout_s=5)
            self.session = await tertulia.Session.start(chosen, journal=NoJournal()).__aenter__()
            self.news = self.session.parts.bus.subscribe(limit=100_000)
            await self.session.open(sandbox="read-only" if narrow else None, include_plan_tool=not narrow)

        self.run(begin())

    @rule(number=st.integers(0, 5), acts=st.lists(ACTS, min_size=1, max_size=8), ticks=st.integers(0, 60))
    def message(self, number: int, acts: list[tuple[str, int]], ticks: int) -> None:
        async def send() -> None:
            self.acts.extend(acts)
            handle = self.session.conversation(self.pick(number))
            self.waiting.append(self.loop.create_task(handle.message("go")))
            await self.tick(ticks)

        self.attempt(send())

    @rule(number=st.integers(0, 5), how=st.sampled_from(HOW))
    def meddle(self, number: int, how: str) -> None:
        async def meddle() -> None:
            handle = self.session.conversation(self.pick(number))
            match how:
                case "interrupt":
                    await handle.interrupt()
                case "interrupt branch":
                    await handle.interrupt(scope="branch")
                case "cancel branch":
                    chains = self.session.parts.scheduler.active
                    for task_id in [*chains[0].tasks][number : number + 1] if chains else []:
                        self.session.activity.cancel(task_id, scope="branch")
                case "close":
                    self.waiting.append(self.loop.create_task(handle.close()))
                case "steer":
                    await handle.steer("also this")
                case "narrow":
                    await handle.set_context(sandbox="read-only", include_plan_tool=False)
                case _:
                    await handle.set_context(visibility="subtree")

        self.attempt(meddle())

    @rule(ticks=st.integers(1, 100))
    def go_on(self, ticks: int) -> None:
        async def open_all() -> None:
            for gate in self.gates:
                gate.set()
            await self.tick(ticks)

        self.run(open_all())

    async def tick(self, count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    # ---- what must hold

    @invariant()
    def slots_suffice_and_open_calls_are_waited_for(self) -> None:
        if not hasattr(self, "session"):
            return
        conversations = list(self.session.parts.conversations)
        running = [task.conversation_id for task in self.session.parts.registry.running()]
        assert len(running) <= self.slots
        assert len(running) == len(set(running))
        assert not self.has_wait_cycle()
        for conversation in conversations:
            opens, closes = prove(conversation.history.snapshot())
            assert not closes
            assert not opens or conversation.task is not None or conversation.awaiting
        assert not self.grown
        assert len(conversations) <= LIMITS["max_conversations"] + 1

    def has_wait_cycle(self) -> bool:
        """Whether a conversation waits for itself, however many others lie between."""
        scheduler = self.session.parts.scheduler
        branches = [branch for chain in scheduler.active for branch in chain.branches if branch.state == "waiting"]
        return any(
            scheduler.occupancy.would_never_end(branch.conversation_id, awaited)
            for branch in branches
            for awaited in branch.awaited
        )

    def teardown(self) -> None:
        try:
            if hasattr(self, "session"):
                self.run(self._finish())
        finally:
            logging.getLogger("tertulia.scheduler.task_runner").disabled = False
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    async def _finish(self) -> None:
        parts = self.session.parts
        self.acts.clear()
        while any(not task.done() for task in self.waiting):
            for gate in self.gates:
                gate.set()
            await self.tick(1)
        for result in await asyncio.gather(*self.waiting, return_exceptions=True):
            assert not isinstance(result, BaseException) or isinstance(result, TertuliaError), repr(result)
        # No plan is left, and the next message works, in every conversation that there is.
        assert (parts.scheduler.active, parts.scheduler.queued(), len(parts.registry)) == ([], [], 0)
        for conversation in self.session.conversations():
            state = parts.conversations.find(conversation.id)
            assert (state.task, state.awaiting, state.history.open_calls) == (None, 0, ())
            _each_call_has_one_output(state)
            assert (await conversation.message("still there?")).text == "done"
        while (event := self.news.next_nowait()) is not None:
            self.events.append(event)
        await self.session.close(timeout=5)
        while (event := self.news.next_nowait()) is not None:
            self.events.append(event)
        check_invariants(self.events, self.slots)
        if self.slots == 1:
            _check_order(self.events)
            _check_bounds(self.events)
        assert not self.grown
        assert len(parts.nursery) == 0


def _each_call_has_one_output(conversation: Any) -> None:
    items = list(conversation.history.snapshot())
    calls = [item.call_id for item in items if isinstance(item, ToolCall)]
    outputs = [item.call_id for item in items if isinstance(item, ToolOutput)]
    assert sorted(calls) == sorted(outputs)


def _check_order(events: list[Event]) -> None:
    """Inner before outer: who goes on, does so when nobody above it has an unanswered call; then comes the next user.

    A conversation that was closed takes its calls with it; they are answered, but nobody waits for that.
    """
    closed = {event.conversation_id for event in events if event.type == "conversation_closed"}
    open_calls: set[tuple[Any, Any]] = set()
    stack: list[Any] = []
    for event in events:
        data: Any = event.data
        match event.type, getattr(data, "kind", getattr(data, "reason", None)):
            case "tool_call_begin", _ if event.conversation_id not in closed:
                open_calls.add((event.conversation_id, data.call_id))
            case "tool_call_end", _:
                open_calls.discard((event.conversation_id, data.call_id))
            case "turn_aborted", "replaced":
                stack.append(event.conversation_id)
                assert sum(call[0] in stack for call in open_calls) <= 2 * LIMITS["max_interrupt_chain_depth"]
            case "task_started", "continuation":
                while (above := stack.pop()) != event.conversation_id:
                    assert not [call for call in open_calls if call[0] == above]
            case "task_started", "user":
                assert not open_calls
                stack.clear()
            case _:
                pass
    assert not open_calls


def _check_bounds(events: list[Event]) -> None:
    """What one user's message causes is bounded, and those that one answer opens speak in the order of its calls."""
    caused = opened = 0
    queues: dict[Any, list[Any]] = {}
    closed = {event.conversation_id for event in events if event.type == "conversation_closed"}
    for event in events:
        match event.type, getattr(event.data, "kind", None):
            case "conversation_opened", _ if event.task_id is not None:
                opened += 1
                queues.setdefault(event.task_id, []).append(event.conversation_id)
            case "task_started", "user":
                caused = opened = 0
                queues.clear()
            case "task_started", "target":
                caused += 1
                for queue in queues.values():
                    if event.conversation_id in queue:
                        before = queue[: queue.index(event.conversation_id)]
                        assert not [other for other in before if other not in closed]
                        queue.remove(event.conversation_id)
            case _:
                pass
        assert caused <= LIMITS["max_task_interrupts"]
        assert opened <= LIMITS["max_chain_conversations"]


def machine(examples: int) -> Any:
    case = type("Delegating", (Delegating,), {}).TestCase
    case.settings = settings(
        max_examples=examples, stateful_step_count=10, deadline=None, suppress_health_check=list(HealthCheck)
    )
    return case


TestAnyTree = pytest.mark.timeout(120)(machine(times(500, 100)))

TestTenThousandTrees = pytest.mark.torture(pytest.mark.timeout(1800)(machine(10_000)))
