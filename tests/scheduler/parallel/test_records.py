"""What ran side by side can be replayed, proved, forked and resumed; a crash closes every open branch."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tertulia
from tertulia.events.clock import SystemClock
from tertulia.protocol.items import ToolOutput
from tertulia.session.resume.fork import fork_session
from tertulia.session.resume.replay_verification import verify_requests
from tertulia.session.session import Session
from tertulia.session.settings.settings import current_environment
from tertulia.testing import ScriptedModel, ScriptedRequest, call, say
from tests.session.lives import Lives, durable_events, until
from tests.session.stored import lines


class Colleagues:
    """A model that asks three others at once; they answer when all three work."""

    def __init__(self, hold: bool = False) -> None:
        self.at_work: set[str] = set()
        self.all_at_work = asyncio.Event()
        self.hold = hold

    def reply(self, request: ScriptedRequest) -> Any:
        if request.last_input == "ask":
            return say("I ask.", *(call("conv_create", {"user_instruction": f"work {n}"}) for n in range(3)))
        if request.last_input.startswith("work"):
            self.at_work.add(request.conversation_id)
            if len(self.at_work) == 3 and not self.hold:
                self.all_at_work.set()
            return say(f"re: {request.last_input}", gate=self.all_at_work)
        return say("all answered")

    def settings(self, **fields: Any) -> tertulia.Settings:
        return tertulia.Settings(model=ScriptedModel([self.reply], repeat=True), slots=4, **fields)


async def test_a_session_that_ran_in_parallel_is_proved_resumed_forked_and_compacted() -> None:
    """Issue 20, 6."""
    crew = Colleagues()
    async with Session.start(crew.settings()) as session:
        other = await session.open()
        replies = await asyncio.gather(session.root.message("ask"), other.message("hello"))
        assert [reply.text for reply in replies] == ["all answered", "all answered"]
        # What is older than the newest turn can be cut.
        for _ in range(3):
            assert (await session.root.message("ask")).text == "all answered"
        compacting, elsewhere = await asyncio.gather(session.root.compact(), other.message("meanwhile"))
        assert (compacting.compacted, elsewhere.text) == (True, "all answered")
    assert {verdict.outcome for verdict in verify_requests(lines(session.id))} == {"same"}
    async with Session.resume(session.id, Colleagues().settings()) as again:
        assert len(again.conversations()) == 2 + 4 * 3
        assert (await again.root.message("ask")).text == "all answered"
    assert {verdict.outcome for verdict in verify_requests(lines(session.id))} == {"same"}
    new = await fork_session(current_environment(), tertulia.Settings(), SystemClock(), session.id)
    async with Session.resume(new, Colleagues().settings()) as forked:
        assert (await forked.root.message("and now")).text == "all answered"


@pytest.mark.parametrize("policy", ["full", "headers_only"])
async def test_a_crash_closes_every_open_branch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, policy: str) -> None:
    """Issue 20, 6: as with one slot: each call has its one output, each task its one end, nothing runs again."""
    lives, crew = Lives(monkeypatch, tmp_path), Colleagues(hold=True)
    async with Session.start(crew.settings(storage_policy=policy)) as session:
        task = asyncio.create_task(session.root.message("ask"))
        await until(lambda: len(crew.at_work) == 3)
        await session.activity.flush()
        lives.die()
        task.cancel()
    async with Session.resume(session.id, Colleagues().settings(storage_policy=policy)) as again:
        states = [again.parts.conversations.find(c.id) for c in again.conversations()]
        assert [(state.task, state.awaiting, state.history.open_calls) for state in states] == [(None, 0, ())] * 4
        root = again.parts.conversations.root.history
        outputs = [item for item in root.snapshot() if isinstance(item, ToolOutput)]
        assert len(outputs) == (3 if policy == "full" else 0)
        assert [event.type for event in durable_events(again)].count("tool_call_end") == 3
        assert [event.type for event in durable_events(again)].count("turn_aborted") == 3
        assert len(again.activity.tasks) == 0
        assert (await again.root.message("go on")).text == "all answered"
        if policy == "full":
            assert {msgspec.json.decode(output.text).get("ok", False) for output in outputs} == {False}
