"""What branches that work side by side share: limits of MCP servers, in turns, and people who answer and write."""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.models.scripted.script import ScriptedRequest
from tertulia.testing import ScriptedModel, call, say
from tests.deadlines import HANG_S
from tests.mcp.fakes import bare
from tests.models.local_staging import staged
from tests.session.staging import Stage, stage, ticks

MANY = 8
RATE = 5


@pytest.mark.parametrize("bounded", ["the server", "the session"])
async def test_a_branch_with_many_calls_of_a_server_does_not_hold_up_its_sibling(bounded: str, tmp_path: Path) -> None:
    """Issue 20, 7: conversations that wait for a server take turns, whichever branch they belong to."""
    record = tmp_path / "record"
    command, *args = bare("--tools", "slow,pid", "--record", str(record))
    table: dict[str, Any] = {"command": command, "args": args, "approval": "approve", "parallel": True}
    table |= {"concurrency": 1} if bounded == "the server" else {}

    def reply(request: ScriptedRequest) -> Any:
        match request.last_input:
            case "ask both":
                return say("", *(call("conv_create", {"user_instruction": what}) for what in ("many", "one")))
            case "many":
                return say("", *(call("shop__slow", {"seconds": 0.02}) for _ in range(MANY)))
            case "one":
                return call("shop__pid", {})
            case _:
                return say("done")

    settings = {"limits": {"mcp_concurrency": 1}} if bounded == "the session" else {}
    async with stage(
        model=ScriptedModel([reply], repeat=True),
        slots=3,
        mcp_servers={"shop": table},
        approval_policy="never",
        **settings,
    ) as on:
        async with asyncio.timeout(HANG_S):
            assert (await on.root.message("ask both")).text == "done"
        assert [output.success for output in on.outputs(on.root)] == [True, True]
    called = [line.split()[1] for line in record.read_text().splitlines() if line.startswith("call ")]
    assert sorted(called) == ["pid", *["slow"] * MANY]
    assert called.index("pid") <= 2, called


async def test_branches_share_a_rate_of_calls_and_take_turns_at_it(tmp_path: Path) -> None:
    """Issue 20, 7: the rate of the session counts the calls of all branches."""
    record = tmp_path / "record"
    command, *args = bare("--tools", "echo,pid", "--record", str(record))
    table: dict[str, Any] = {"command": command, "args": args, "approval": "approve", "parallel": True}
    both, at_work = ("many", "few"), asyncio.Event()

    def reply(request: ScriptedRequest) -> Any:
        match request.last_input:
            case "ask both":
                return say("", *(call("conv_create", {"user_instruction": what}) for what in both))
            case "many":
                return say("", *(call("shop__echo", {"text": "x"}) for _ in range(2 * RATE)), gate=at_work)
            case "few":
                at_work.set()
                return say("", *(call("shop__pid", {}) for _ in range(2)))
            case _:
                return say("done")

    async with stage(
        model=ScriptedModel([reply], repeat=True),
        slots=3,
        mcp_servers={"shop": table},
        approval_policy="never",
        limits={"mcp_rate_per_s": RATE},
    ) as on:
        began = time.monotonic()
        async with asyncio.timeout(HANG_S):
            assert (await on.root.message("ask both")).text == "done"
        took = time.monotonic() - began
        assert [output.success for output in on.outputs(on.root)] == [True, True]
    called = [line.split()[1] for line in record.read_text().splitlines() if line.startswith("call ")]
    assert sorted(called) == [*["echo"] * 2 * RATE, *["pid"] * 2]
    # A rate holds in every second: one second for the second half, and one more for what does not fit into that.
    assert took > 2
    # After the first second's calls one of each in turn.
    assert [number for number, name in enumerate(called) if name == "pid"][-1] <= RATE + 3, called


async def test_branches_take_turns_at_the_embedded_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 20, 7: its program answers one request at a time; a conversation with many messages delays none."""
    names = ("x", "y", "z")
    async with staged(tmp_path / "home", "answers") as local:
        monkeypatch.setenv("TERTULIA_HOME", str(local.home))
        settings = tertulia.Settings(model="local/smollm2", slots=3)
        async with tertulia.Session.start(settings) as session, asyncio.timeout(HANG_S):
            conversations = {name: await session.open(title=name) for name in names}
            messages = [(name, number) for number in range(3) for name in names if number == 0 or name == "x"]
            await asyncio.gather(*(conversations[name].message(f"{name} {number}") for name, number in messages))
        request = [body["messages"][-1]["content"] for body in local.diary("asked")]
    assert [text for text in request if text.startswith("x")] == ["x 0", "x 1", "x 2"]
    assert {"y 0", "z 0"} <= set(request[:4]), request


class AskingBranches:
    """Three colleagues that one answer asks, each of which must ask a person before it touches its file."""

    names = ("x", "y", "z")

    def __init__(self, on: Stage) -> None:
        self.on = on

    @staticmethod
    def reply(request: ScriptedRequest) -> Any:
        if request.last_input == "ask all":
            return say("", *(call("conv_create", {"user_instruction": n, "title": n}) for n in AskingBranches.names))
        if request.last_input in AskingBranches.names:
            return call("shell", {"command": ["touch", request.last_input]})
        return say("done")

    async def waiting(self) -> dict[str, str]:
        """The approval that each colleague waits for, once all do."""
        async with asyncio.timeout(HANG_S):
            while len(pending := await self.on.session.approvals.pending()) < len(self.names):
                await ticks(1)
        titles = {c.id: c.title for c in self.on.parts.conversations}
        return {titles[request.conversation_id] or "": request.approval_id for request in pending}

    def outcome(self) -> dict[str, bool]:
        """Whether the command was run, of each whose call has an output."""
        outputs = {
            c.title or "": self.on.outputs(self.on.session.conversation(c.id)) for c in self.on.parts.conversations
        }
        return {name: outputs[name][0].success for name in self.names if outputs[name]}


def asking_stage(cwd: Path) -> AbstractAsyncContextManager[Stage]:
    """A session in which every branch asks for an approval."""
    return stage(
        model=ScriptedModel([AskingBranches.reply], repeat=True),
        slots=4,
        cwd=str(cwd),
        approval_policy="untrusted",
        sandbox="danger-full-access",
    )


@pytest.mark.parametrize("order", ["xyz", "zyx", "yxz"])
async def test_approvals_of_several_branches_are_answered_in_any_order(order: str, tmp_path: Path) -> None:
    """Issue 20, 7: they queue, and each answer reaches its own branch."""
    async with asking_stage(tmp_path) as on, on.session.events(attend=True):
        branches = AskingBranches(on)
        reply = on.begin(on.root.message("ask all"))
        questions = await branches.waiting()
        assert sorted(questions) == list(branches.names)
        for number, name in enumerate(order):
            answer = "deny" if name == "y" else "allow"
            assert (await on.session.approvals.resolve(questions[name], answer)).resolved
            async with asyncio.timeout(HANG_S):
                while name not in branches.outcome():
                    await ticks(1)
            assert set(branches.outcome()) == set(order[: number + 1])
            assert not reply.done() or number == 2
        assert (await reply).text == "done"
        assert branches.outcome() == {"x": True, "y": False, "z": True}
        assert sorted(made.name for made in tmp_path.iterdir()) == ["x", "z"]
        on.check_idle()


async def test_a_branch_that_is_cancelled_withdraws_its_approval_and_no_other(tmp_path: Path) -> None:
    """Issue 20, 7 and 5."""
    async with asking_stage(tmp_path) as on, on.session.events(attend=True):
        branches = AskingBranches(on)
        reply = on.begin(on.root.message("ask all"))
        questions = await branches.waiting()
        (cut,) = [c for c in on.session.conversations() if c.info.title == "y"]
        assert (await cut.interrupt(scope="branch")).interrupted
        left = {request.approval_id for request in await on.session.approvals.pending()}
        assert left == {questions["x"], questions["z"]}
        assert not (await on.session.approvals.resolve(questions["y"], "allow")).resolved
        for name in "zx":
            await on.session.approvals.resolve(questions[name], "allow")
        assert (await reply).text == "done"
        assert branches.outcome() == {"x": True, "y": False, "z": True}
        assert not (tmp_path / "y").exists()
        assert [output.success for output in on.outputs(on.root)] == [True, False, True]


async def test_a_person_writes_to_a_child_and_its_parent_is_neither_interrupted_nor_told() -> None:
    """Issue 20, 8: while the parent works by itself, and while it waits for another child; it hears when it asks."""
    gate = asyncio.Event()

    def reply(request: ScriptedRequest) -> Any:
        match request.last_input:
            case "open":
                return call("conv_create", {"user_instruction": "be there", "title": "child"})
            case "work":
                return say("worked", gate=gate)
            case "look":
                return call("conv_history", {"conversation_id": child.id})
            case "how is it going?":
                return say("well")
            case _:
                return say("done")

    async with stage(model=ScriptedModel([reply], repeat=True), slots=2) as on:
        assert (await on.root.message("open")).text == "done"
        child = on.session.conversations()[1]
        parent = on.begin(on.root.message("work"))
        async with asyncio.timeout(HANG_S):
            while on.root.info.status != "running":
                await ticks(1)
        (task,) = on.parts.registry.running()
        before, items = len(on.events.drain()), await on.root.history()
        assert (await child.message("how is it going?")).text == "well"
        assert on.parts.registry.running() == [task]
        assert {event.conversation_id for event in on.events.drain()[before:]} == {child.id}
        assert await on.root.history() == items
        gate.set()
        assert (await parent).text == "worked"
        assert (await on.root.message("look")).text == "done"
        assert "how is it going?" in on.outputs(on.root)[-1].text
