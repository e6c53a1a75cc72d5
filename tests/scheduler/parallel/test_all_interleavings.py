"""Every order in which a small world can go: three conversations, two slots, two handoffs, a user's message, a stop.

Stateless search: each path of choices is played from the beginning in a session of its own; a state that was seen
before is not gone on from.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

import tertulia
from tertulia.events.journal import NoJournal
from tertulia.models.scripted.script import ScriptedRequest
from tertulia.protocol.items import ToolCall, ToolOutput
from tertulia.testing import RecordedEvents, ScriptedModel, call, check_invariants, say
from tests.deadlines import HANG_S
from tests.session.staging import ticks
from tests.thorough import sample, times

SLOTS = 2
STOPS = tuple(f"{scope} {name}" for scope in ("chain", "branch", "close") for name in "abc")
Path = tuple[str, ...]


class World:
    """a asks b and c, b asks c, and a user writes to c; every request waits until it is chosen to go on."""

    session: tertulia.Session

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        self.pending: dict[str, asyncio.Event] = {}
        self.asked: list[asyncio.Task[tertulia.Reply]] = []
        self.stopped = False

    @property
    def parts(self) -> Any:
        return self.session.parts

    def reply(self, request: ScriptedRequest) -> Any:
        """The model's answer, once its gate is opened."""
        name = next(name for name, id in self.ids.items() if id == request.conversation_id)
        self.pending[name] = gate = asyncio.Event()
        targets = {"a": "bc", "b": "c"}.get(name, "") if request.last_input == "ask" else ""
        sent = ({"conversation_id": self.ids[t], "text": "ask"} for t in targets)
        return say("" if targets else "done", *(call("conv_send", target) for target in sent), gate=gate)

    async def begin(self) -> None:
        """Open the conversations and write to two of them."""
        for name in "abc":
            self.ids[name] = (await self.session.open(title=name)).id
        for name, text in (("a", "ask"), ("c", "user")):
            self.asked.append(asyncio.create_task(self.session.conversation(self.ids[name]).message(text)))
        await self.settle()

    async def settle(self) -> None:
        """Until nothing more happens by itself."""
        before: object = None
        while before != (before := self.signature()):
            await ticks(25)

    async def choose(self, choice: str) -> None:
        """Let one request go on, or stop something."""
        if choice in self.pending:
            self.pending.pop(choice).set()
        else:
            await self.stop(choice)
        await self.settle()

    async def stop(self, choice: str) -> None:
        """Stop a chain or a branch, or close a conversation."""
        self.stopped = True
        scope, name = choice.split()
        conversation = self.session.conversation(self.ids[name])
        if scope == "close":
            await conversation.close()
        else:
            await conversation.interrupt(scope=cast("Any", scope))

    async def finish(self) -> None:
        """Let everything go on to its end."""
        while choices := [choice for choice in self.choices() if choice in self.pending]:
            await self.choose(choices[0])

    def choices(self) -> list[str]:
        """What can happen next."""
        running = {c.title for c in self.parts.conversations if c.task is not None}
        self.pending = {name: gate for name, gate in self.pending.items() if name in running}
        stops = () if self.stopped or not self.parts.scheduler.active else STOPS
        return [*sorted(self.pending), *stops]

    def signature(self) -> object:
        """What tells this state from others, as far as what happens next is concerned."""
        scheduler = self.parts.scheduler
        chains = tuple(
            tuple((self.name(b), b.state, b.stopped, tuple(r and r.status for r in b.results)) for b in chain.branches)
            for chain in (*scheduler.active, *scheduler.queued())
        )
        rows = tuple((c.title, c.status, c.history.totals.item_count) for c in self.parts.conversations)
        return chains, rows, tuple(sorted(self.pending)), self.stopped, tuple(task.done() for task in self.asked)

    def name(self, branch: Any) -> str:
        return next(name for name, id in self.ids.items() if id == branch.conversation_id)

    def check(self) -> None:
        """What must hold in every state."""
        scheduler = self.parts.scheduler
        running = [task.conversation_id for task in self.parts.registry.running()]
        assert len(running) <= SLOTS
        assert len(running) == len(set(running))
        branches = [branch for chain in scheduler.active for branch in chain.branches]
        for branch in branches:
            assert not any(scheduler.occupancy.would_never_end(branch.conversation_id, t) for t in branch.awaited)
        ready = [branch for branch in branches if branch.state == "ready"]
        if len(running) < SLOTS:
            # No slot is idle while a branch could run.
            idle = [branch for branch in ready if scheduler.occupancy.is_free_for(branch)]
            assert not idle, f"{list(map(self.name, idle))} could run: {self.signature()}"

    async def check_end(self) -> None:
        """What must hold when nothing can happen any more."""
        assert all(task.done() for task in self.asked), "a message was never answered"
        assert not self.parts.scheduler.active
        for conversation in self.parts.conversations:
            items = list(conversation.history.snapshot())
            calls = [item.call_id for item in items if isinstance(item, ToolCall)]
            assert sorted(calls) == sorted(item.call_id for item in items if isinstance(item, ToolOutput))
            assert (conversation.task, conversation.awaiting) == (None, 0)
        assert len(self.parts.scheduler.occupancy) == 0


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """A session with the world in it, whose events keep all promises."""
    here = World()
    settings = tertulia.Settings(model=ScriptedModel([here.reply], repeat=True), slots=SLOTS)
    here.session = await tertulia.Session.start(settings, journal=NoJournal()).__aenter__()
    async with RecordedEvents(here.session) as events:
        try:
            await here.begin()
            yield here
        finally:
            await here.session.close()
            await asyncio.gather(*here.asked)
    check_invariants(events.seen, SLOTS)


@pytest.mark.timeout(1_800)
async def test_every_interleaving_of_a_small_world_keeps_every_promise(capsys: pytest.CaptureFixture[str]) -> None:
    """Issue 20, proof: all of them in `make torture`, the first states in `make test`; the number is printed."""
    most, seen, ends, ahead = times(1_000_000, 150), set[object](), 0, [Path()]
    while ahead and len(seen) < most:
        path = ahead.pop()
        async with asyncio.timeout(HANG_S), world() as here:
            for choice in path:
                await here.choose(choice)
            here.check()
            state = here.signature()
            if state in seen:
                continue
            seen.add(state)
            choices = here.choices()
            if not choices:
                ends += 1
                await here.check_end()
            ahead += [(*path, choice) for choice in choices]
    with capsys.disabled():
        sys.stdout.write(
            f"\n{len(seen):,} states of the small world, {ends:,} of them ends, {len(ahead):,} paths left\n"
        )
    assert ends > 0


STEPS = 12
"""More steps of the loop than there are between an answer of the model and quiet: six at most."""


async def unstopped_paths() -> list[Path]:
    """Every order in which the answers can come when nothing is stopped."""
    found, seen, ahead = list[Path](), set[object](), [Path()]
    while ahead:
        path = ahead.pop()
        async with asyncio.timeout(HANG_S), world() as here:
            for choice in path:
                await here.choose(choice)
            if (state := here.signature()) not in seen:
                seen.add(state)
                after = [(*path, choice) for choice in here.choices() if choice in here.pending]
                found += after
                ahead += after
            await here.finish()
    return found


@pytest.mark.timeout(1_800)
async def test_a_stop_at_any_step_after_any_answer_keeps_every_promise(capsys: pytest.CaptureFixture[str]) -> None:
    """Issue 20, proof: a stop does not wait until all is quiet; it comes in the middle of a handoff or a report too."""
    paths = await unstopped_paths()
    cases = [(path, stop, steps) for path in paths for stop in STOPS for steps in range(STEPS)]
    chosen = sample(cases, 150)
    for path, stop, steps in chosen:
        async with asyncio.timeout(HANG_S), world() as here:
            for choice in path[:-1]:
                await here.choose(choice)
            here.pending.pop(path[-1]).set()
            await ticks(steps)
            await here.stop(stop)
            await here.settle()
            here.check()
            await here.finish()
            await here.check_end()
    with capsys.disabled():
        sys.stdout.write(f"\n{len(chosen):,} of {len(cases):,} stops in the middle of {len(paths):,} answers\n")
