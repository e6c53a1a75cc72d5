"""Any tree of conversations that delegate, fail, fall silent, destroy each other, are stopped or die: promises hold."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from functools import reduce
from time import monotonic
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import tertulia
from tertulia.conversation.task_scope import TaskScope
from tertulia.errors import TertuliaError
from tertulia.events.journal import NoJournal
from tertulia.history.sanitiser import prove
from tertulia.models.scripted.script import ScriptedRequest
from tertulia.policy.rights import Rights, meet
from tertulia.protocol.events import Event
from tertulia.scheduler.host_slots import HostSlots
from tertulia.scheduler.plan import Branch
from tertulia.scheduler.task_runner import TaskRunner
from tertulia.session.resume.replay_verification import verify_requests
from tertulia.testing import ScriptedModel, ScriptedReply, call, check_invariants, fail, say
from tests.deadlines import HANG_S
from tests.delegation.tree_checks import (
    LIMITS,
    MovableLoop,
    check_bounds,
    check_order,
    each_call_has_one_output,
    has_wait_cycle,
    kinds_of,
)
from tests.events.scripted import drain
from tests.session.stored import lines

PLAIN = ("say", "silent", "fail", "cut", "slow", "look", "list", "odd")
HANDING = ("create", "create two", "create and look", "send", "send two", "fork", "destroy", "leave")
NEW = {"user_instruction": "do it"}
TEXT = {"text": "please"}
NUMBERS = st.integers(0, 5)
ACTS = st.tuples(st.sampled_from((*PLAIN, *("slow",) * 12, *HANDING * 2)), NUMBERS)
TREES = st.tuples(
    st.tuples(st.sampled_from(("create", "create two", "send two", "send two", "create and look")), NUMBERS),
    st.lists(ACTS, min_size=2, max_size=8),
).map(lambda drawn: [drawn[0], *drawn[1]])
"""What the model does next, in whichever conversation it is asked; the first of them hands over."""
TICKS = st.sampled_from((1, 3, 10, 20, 40, 80))
HOW = ("interrupt", "interrupt branch", "cancel branch", "close", "steer", "narrow", "hide")
STEPS = (*("message",) * 7, *HOW, "go on", "go on", "let time pass", "crash", "crash")
OCCUR = {
    *(f"slots: {slots}" for slots in range(1, 9)),
    *(f"at once: {tasks}" for tasks in range(1, 4)),
    *(f"depth: {depth}" for depth in range(4)),
    *(f"aborted: {reason}" for reason in ("replaced", "interrupted", "timeout", "crash", "shutdown")),
    *("task: completed", "task: failed", "rights of a task"),
    *(f"answered: {code}" for code in ("cancelled", "closed", "timeout", "limit", "awaiting_result", "model_error")),
    *(f"did: {how}" for how in (*HOW, "crash", "crash while it waits", "close the session at work")),
}
"""What every run must have gone through at least once."""


class Delegating(RuleBasedStateMachine):
    """A session whose model acts as it was drawn: H5, S004-13, S004-14, S004-18, S004-36, X-03, X-12, X-14, X-15."""

    occurred: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        logging.getLogger("tertulia.scheduler.task_runner").disabled = True
        self.loop = MovableLoop()
        self.acts: deque[tuple[str, int]] = deque()
        self.gates: list[asyncio.Event] = []
        self.waiting: list[asyncio.Task[Any]] = []
        self.events: list[Event] = []
        self.grown: list[str] = []
        self.scopes: dict[str, TaskScope] = {}
        """Of each conversation the task that it began last."""
        self.patched = pytest.MonkeyPatch()
        self.patched.setattr(TaskRunner, "_open", self.watch(TaskRunner._open))
        self.homes: list[str] = []
        self.usual_home = os.environ["TERTULIA_HOME"]

    # ---- the model

    def reply(self, request: ScriptedRequest) -> Any:
        # Once more at every request: rights may have been narrowed since the task began.
        self.check_scope(self.scopes[request.request.conversation_id])
        act, number = self.acts.popleft() if self.acts else ("say", 0)
        if act == "slow":
            self.gates.append(asyncio.Event())
            return say("at last", gate=self.gates[-1])
        if act == "leave":
            return say("", call("conv_destroy", {"conversation_id": request.request.conversation_id}))
        target, other = ({"conversation_id": self.pick(number + n)} for n in (0, 1))
        narrow = {**NEW, "internal_tools": {"include_plan_tool": False}}
        replies: dict[str, Any] = {
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
            "send": say("", call("look"), call("conv_send", {**target, **TEXT})),
            "send two": say("", call("conv_send", {**target, **TEXT}), call("conv_send", {**other, **TEXT})),
            "fork": say("", call("conv_create", {**NEW, "fork_history": number or "all"})),
            "destroy": say("", call("conv_destroy", target)),
        }
        return replies[act]

    def pick(self, number: int) -> str:
        conversations = list(self.session.parts.conversations)
        return conversations[number % len(conversations)].id

    def look_around(self, call: tertulia.CallContext) -> None:
        """What a tool is told of its task's rights."""
        self.occurred[f"depth: {len(call.chain.callers)}"] += 1
        if call.rights != self.meet_of(call.chain.callers, call.conversation_id):
            self.grown.append(call.conversation_id)

    def watch(self, begin: Callable[..., TaskScope]) -> Callable[..., TaskScope]:
        """Look at the rights of every task as it begins, also of one that calls no tool."""

        def begin_watched(runner: TaskRunner, branch: Branch, *others: Any) -> TaskScope:
            scope = self.scopes[branch.conversation_id] = begin(runner, branch, *others)
            self.check_scope(scope)
            return scope

        return begin_watched

    def check_scope(self, scope: TaskScope) -> None:
        """A task has no right that one of the conversations that wait for it has not, and no sibling narrows it."""
        self.occurred["rights of a task"] += 1
        expected = self.meet_of(scope.chain().callers, scope.conversation.id)
        if (scope.rights(), scope.storage()) != (expected, expected.storage_policy):
            self.grown.append(scope.conversation.id)

    def meet_of(self, callers: tuple[str, ...], conversation_id: str) -> Rights:
        """The meet of a path, from the root of its chain to a conversation."""
        path = [self.session.parts.conversations.peek(id) for id in (*callers, conversation_id)]
        return reduce(meet, [conversation.terms.rights for conversation in path if conversation is not None])

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

    def settings(self) -> tertulia.Settings:
        @tertulia.tool
        async def look(call: tertulia.CallContext) -> str:
            """Look at the rights."""
            self.look_around(call)
            return "looked"

        model = ScriptedModel([self.reply], repeat=True)
        return tertulia.Settings(model=model, tools=[look], limits=LIMITS, slots=self.slots, close_timeout_s=5)

    @initialize(
        narrow=st.booleans(),
        slots=st.integers(1, 8),
        host_slots=st.sampled_from((8, 8, 8, 2, 1)),
        dice=st.integers(0, 4),
    )
    def start(self, narrow: bool, slots: int, host_slots: int, dice: int) -> None:
        self.slots, self.host_slots, self.recorded = slots, HostSlots(host_slots), dice == 4
        self.occurred[f"slots: {slots}"] += 1
        if self.recorded:
            self.move_to(self.usual_home)

        async def begin() -> None:
            journal = None if self.recorded else NoJournal()
            self.session = tertulia.Session(self.settings(), journal=journal, host_slots=self.host_slots)
            await self.session.__aenter__()
            self.news = self.session.parts.bus.subscribe(limit=100_000)
            await self.session.open(sandbox="read-only" if narrow else None, include_plan_tool=not narrow)

        self.run(begin())

    @rule(step=st.sampled_from(STEPS), number=NUMBERS, acts=TREES, ticks=TICKS)
    def act(self, step: str, number: int, acts: list[tuple[str, int]], ticks: int) -> None:
        """One rule for all, because hypothesis leaves out rules, and a tree is of interest while it is disturbed."""
        match step:
            case "go on":
                self.go_on(ticks)
            case "let time pass":
                self.let_time_pass((5, 25, 40)[number % 3], ticks)
            case "crash" if self.recorded:
                # The process dies with all that it does at this moment; what is written down is gone on with.
                self.run(self._die())
            case "message" | "crash":
                self.message(number, acts, ticks)
            case _:
                self.meddle(number, step)

    def message(self, number: int, acts: list[tuple[str, int]], ticks: int) -> None:
        async def send() -> None:
            self.acts.extend(acts)
            handle = self.session.conversation(self.pick(number))
            self.waiting.append(self.loop.create_task(handle.message("go")))
            await self.tick(ticks)

        self.attempt(send())

    def pick_at_work(self, number: int) -> str:
        """One that runs or waits, where there is one."""
        held = [c.id for c in self.session.parts.conversations if c.task is not None or c.awaiting]
        return held[number % len(held)] if held else self.pick(number)

    def meddle(self, number: int, how: str) -> None:
        async def meddle() -> None:
            handle = self.session.conversation(self.pick_at_work(number))
            done = True
            match how:
                case "interrupt":
                    done = (await handle.interrupt()).interrupted
                case "interrupt branch":
                    done = (await handle.interrupt(scope="branch")).interrupted
                case "cancel branch":
                    chains = self.session.parts.scheduler.active
                    tasks = [*chains[0].tasks] if chains else [""]
                    done = self.session.activity.cancel(tasks[number % len(tasks)], scope="branch")
                case "close":
                    self.waiting.append(self.loop.create_task(handle.close()))
                case "steer":
                    await handle.steer("also this")
                case "narrow":
                    await handle.set_context(sandbox="read-only", include_plan_tool=False)
                case _:
                    await handle.set_context(visibility="subtree")
            self.occurred[f"did: {how}"] += bool(done)

        self.attempt(meddle())

    def go_on(self, ticks: int) -> None:
        async def open_all() -> None:
            for gate in self.gates:
                gate.set()
            await self.tick(ticks)

        self.run(open_all())

    def let_time_pass(self, seconds: int, ticks: int) -> None:
        """Waits of 20 s and targets of 30 s end."""
        self.loop.ahead += seconds
        self.run(self.tick(ticks))

    async def tick(self, count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    # ---- a crash

    async def _die(self) -> None:
        parts = self.session.parts
        while True:
            # What the journal has not taken yet is tried by the storm of kills; here each life goes on where it was.
            await self.session.activity.flush()
            self.events += drain(self.news)
            if parts.bus._numbered == max((event.seq or 0 for event in self.events), default=0):
                break
        self.occurred["did: crash"] += 1
        self.occurred["did: crash while it waits"] += any(len(chain.branches) > 1 for chain in parts.scheduler.active)
        self.move_to(os.environ["TERTULIA_HOME"])
        await self.session.close(timeout=HANG_S)
        await asyncio.gather(*self.waiting, return_exceptions=True)
        self.waiting.clear()
        assert (self.host_slots.held, len(parts.nursery)) == (0, 0)
        self.session = tertulia.Session(self.settings(), resumed=parts.session_id, host_slots=self.host_slots)
        await self.session.__aenter__()
        self.news = self.session.parts.bus.subscribe(limit=100_000)
        self.events += drain(self.session.events(after=0))
        for state in self.session.parts.conversations:
            assert (state.task, state.awaiting, state.history.open_calls) == (None, 0, ())
            each_call_has_one_output(state)
        assert not self.session.activity.tasks

    def move_to(self, past: str) -> None:
        """A home of its own for this life, with what is left of the last one."""
        self.homes.append(home := tempfile.mkdtemp(prefix="tertulia-tree-"))
        if os.path.isdir(past) and past != self.usual_home:
            unsaid = shutil.ignore_patterns("*.lock", "*-shm", "*.sock")
            shutil.copytree(past, home, ignore=unsaid, dirs_exist_ok=True)
        os.environ["TERTULIA_HOME"] = home

    # ---- what must hold

    @invariant()
    def slots_suffice_and_open_calls_are_waited_for(self) -> None:
        if not hasattr(self, "session"):
            return
        conversations = list(self.session.parts.conversations)
        running = [task.conversation_id for task in self.session.parts.registry.running()]
        assert len(running) <= min(self.slots, self.host_slots.held)
        assert len(running) == len(set(running))
        assert not has_wait_cycle(self.session.parts.scheduler)
        for conversation in conversations:
            opens, closes = prove(conversation.history.snapshot())
            assert not closes
            assert not opens or conversation.task is not None or conversation.awaiting
        assert not self.grown
        assert len(conversations) <= LIMITS["max_conversations"] + 1

    def teardown(self) -> None:
        try:
            if hasattr(self, "session"):
                self.loop.run_until_complete(self._finish())
        finally:
            self.patched.undo()
            logging.getLogger("tertulia.scheduler.task_runner").disabled = False
            os.environ["TERTULIA_HOME"] = self.usual_home
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()
            for home in self.homes:
                shutil.rmtree(home)

    async def _until(self, ready: Callable[[], bool]) -> None:
        """Let all go on, time too: retries and deadlines come at once."""
        deadline = monotonic() + HANG_S
        while not ready():
            for gate in self.gates:
                gate.set()
            self.loop.ahead += 0.05
            await self.tick(1)
            assert monotonic() < deadline, "it never came to that"

    async def _finish(self) -> None:
        parts = self.session.parts
        self.acts.clear()
        await self._until(lambda: all(task.done() for task in self.waiting))
        for result in await asyncio.gather(*self.waiting, return_exceptions=True):
            assert not isinstance(result, BaseException) or isinstance(result, TertuliaError), repr(result)
        # No plan is left, no slot and no slot is taken, and the next message works in every conversation.
        await self._until(lambda: not parts.scheduler._workers)
        assert (parts.scheduler.active, parts.scheduler.queued(), len(parts.registry)) == ([], [], 0)
        assert (self.host_slots.held, len(parts.scheduler.occupancy)) == (0, 0)
        for conversation in self.session.conversations():
            state = parts.conversations.find(conversation.id)
            assert (state.task, state.awaiting, state.history.open_calls) == (None, 0, ())
            each_call_has_one_output(state)
            assert (await conversation.message("still there?")).text == "done"
        await self._close_at_work()
        self.check_events()
        assert not self.grown
        assert (len(parts.nursery), self.host_slots.held) == (0, 0)

    async def _close_at_work(self) -> None:
        """The last tree is cut by the close of its session."""
        self.acts.extend([("create two", 0), ("slow", 0), ("send two", 1), ("slow", 0), ("slow", 0)])
        last = self.loop.create_task(self.session.root.message("go"))
        await self.tick(1 + len(self.events) % 60)
        self.events += drain(self.news)
        self.occurred["did: close the session at work"] += not last.done()
        await self.session.close(timeout=HANG_S)
        self.events += drain(self.news)
        assert (await last).status in ("completed", "interrupted")

    def check_events(self) -> None:
        self.occurred += kinds_of(self.events)
        check_invariants(self.events, self.slots)
        if self.slots == 1:
            check_order(self.events)
            check_bounds(self.events)
        if self.recorded:
            assert [v for v in verify_requests(lines(self.session.parts.session_id)) if v.outcome == "different"] == []


def machine(examples: int) -> Any:
    """The test of so many trees; each kind of ending must have occurred in one of them."""
    seen: Counter[str] = Counter()
    drawn = type("Delegating", (Delegating,), {"occurred": seen})

    class AnyTree(drawn.TestCase):
        settings = settings(
            max_examples=examples, stateful_step_count=10, deadline=None, suppress_health_check=list(HealthCheck)
        )

        def runTest(self) -> None:
            super().runTest()
            sys.stdout.write(f"{sum(seen[f'slots: {n}'] for n in range(1, 9)):,} trees: {sorted(seen.items())}\n")
            missing = OCCUR - {kind for kind, count in seen.items() if count}
            assert not missing, f"never occurred: {sorted(missing)}"

    return AnyTree


TestAnyTree = pytest.mark.timeout(300)(machine(300))

TestTenThousandTrees = pytest.mark.torture(pytest.mark.timeout(1800)(machine(10_000)))
