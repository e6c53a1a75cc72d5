"""Approvals of a session: who is there, who answers, and what becomes of what nobody answers."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import tertulia
from tertulia.errors import InvalidParamsError, NoApproverError, NotFoundError
from tertulia.events.journal import NoJournal
from tertulia.policy.approvals.approval_request import GrantSubject, RequestedAction
from tertulia.testing import FakeClock, ScriptedModel, call
from tests.deadlines import HANG_S
from tests.sandbox.confined import need
from tests.session.staging import stage, ticks

TOUCH = call("shell", {"command": ["touch", "made"]})


def escalating(path: Path) -> Any:
    fields = {"sandbox_permissions": "require_escalated", "justification": "the test wants it"}
    return call("shell", {"command": ["touch", str(path)], **fields})


async def asked(news: Any) -> tertulia.Event:
    async with asyncio.timeout(HANG_S):
        async for event in news:
            if event.type == "approval_request":
                return event
    raise AssertionError("nobody asked")


async def test_who_has_stopped_following_is_nobody(tmp_path: Path) -> None:
    """B9: a subscription that was closed, or that nobody holds, does not answer."""
    script = (TOUCH, "First.", TOUCH, "Second.")
    async with stage(*script, cwd=str(tmp_path), approval_policy="untrusted") as acting:
        async with acting.session.events(attend=True):
            pass
        acting.session.events(attend=True)
        await acting.root.message("go")
        other = await acting.session.open()
        async with acting.session.events(conversation=other.id, attend=True):
            await acting.root.message("go again")
        codes = [msgspec.json.decode(output.text)["code"] for output in acting.outputs(acting.root)]
        assert codes == ["no_approver", "no_approver"]
        assert "approval_request" not in acting.events.types()


async def test_never_asks_nobody_and_lets_nothing_out(tmp_path: Path) -> None:
    need("bubblewrap")
    (tmp_path / "w").mkdir()
    script = (TOUCH, escalating(tmp_path / "made"), "Done.")
    async with (
        stage(*script, cwd=str(tmp_path / "w"), approval_policy="never") as acting,
        acting.session.events(attend=True),
    ):
        await acting.root.message("go")
        inside, outside = acting.outputs(acting.root)
        assert inside.success
        assert msgspec.json.decode(outside.text)["code"] == "no_approver"
        assert (tmp_path / "w" / "made").exists()
        assert not (tmp_path / "made").exists()


async def test_a_conversation_cannot_be_asked_by_another_of_its_chain_to_do_more(tmp_path: Path) -> None:
    """B11: the strictest of the chain applies, and the request shows at the root too."""
    need("bubblewrap")
    tools = {"cwd": str(tmp_path), "invariants": False}
    model = ScriptedModel(
        [
            lambda request: call("conv_send", {"conversation_id": target, "text": "touch it"}),
            TOUCH,
            "I did.",
            "All done.",
        ]
    )
    async with stage(model=model, **tools) as acting:
        wide = await acting.session.open()
        target = wide.id
        await acting.root.set_context(approval_policy="untrusted")
        async with acting.session.events(attend=True) as news:
            task = acting.begin(acting.root.message("go"))
            event = await asked(news)
            assert (event.data["conversation_id"], event.data["chain"]) == (wide.id, [acting.root.id])
            assert await acting.session.approvals.pending("root") == await acting.session.approvals.pending(wide.id)
            await acting.session.approvals.resolve(event.data["approval_id"], "deny")
            assert (await task).text == "All done."
        assert not (tmp_path / "made").exists()


async def test_a_grant_ends_when_the_setting_says_so_unless_the_answer_does(tmp_path: Path) -> None:
    """X-29: without the setting a grant lasts as long as its scope."""
    need("bubblewrap")
    clock = FakeClock()
    settings: dict[str, Any] = {"cwd": str(tmp_path), "approval_policy": "untrusted", "clock": clock}
    script = (TOUCH, "1", call("shell", {"command": ["touch", "another"]}), "2")
    async with stage(*script, approval_ttl_s=1_800, **settings) as acting, acting.session.events(attend=True) as news:
        for ttl in ({}, {"ttl_s": 60}):
            task = acting.begin(acting.root.message("go"))
            event = await asked(news)
            await acting.session.approvals.resolve(event.data["approval_id"], "allow", scope="session", **ttl)
            await task
        assert [grant.expires_in_s for grant in await acting.session.approvals.grants()] == [1_800, 60]
        clock.advance(1_800)
        assert await acting.session.approvals.grants() == []


async def test_closing_answers_what_waits(tmp_path: Path) -> None:
    """A conversation its own, and forgets what was allowed for it; the session all."""
    need("bubblewrap")
    settings: dict[str, Any] = {"cwd": str(tmp_path), "approval_policy": "untrusted"}
    async with stage(TOUCH, "1", TOUCH, "2", **settings) as acting, acting.session.events(attend=True) as news:
        child = await acting.session.open()
        task = acting.begin(child.message("go"))
        event = await asked(news)
        await acting.session.approvals.resolve(event.data["approval_id"], "allow", scope="conversation")
        await task
        assert len(await acting.session.approvals.grants()) == 1
        await child.close()
        assert await acting.session.approvals.grants() == []
        task = acting.begin(acting.root.message("go"))
        await asked(news)
        os.remove(tmp_path / "made")
        await acting.session.close()
        assert (await task).status == "interrupted"
        assert not (tmp_path / "made").exists()
        assert await acting.session.approvals.pending() == []


async def test_a_request_of_one_session_cannot_be_answered_in_another(tmp_path: Path) -> None:
    """B3, B6"""
    settings: dict[str, Any] = {"cwd": str(tmp_path), "approval_policy": "untrusted"}
    async with stage(TOUCH, **settings) as acting, acting.session.events(attend=True) as news:
        acting.begin(acting.root.message("go"))
        event = await asked(news)
        other = tertulia.Session.start(tertulia.Settings(model=ScriptedModel()), journal=NoJournal())
        async with other as stranger:
            with pytest.raises(NotFoundError):
                await stranger.approvals.resolve(event.data["approval_id"], "allow")
        assert len(await acting.session.approvals.pending()) == 1
        assert not (tmp_path / "made").exists()


async def test_who_follows_only_the_root_hears_of_what_its_children_ask(tmp_path: Path) -> None:
    """Issue 7: a child's request shows at the root, also when the events are replayed, and so does its end."""
    need("bubblewrap")
    script = (call("conv_create", {"user_instruction": "touch it"}), TOUCH, "I did.", "All done.")
    async with stage(*script, cwd=str(tmp_path), approval_policy="untrusted") as acting:
        async with acting.session.events(conversation="root", attend=True) as news:
            task = acting.begin(acting.root.message("go"))
            event = await asked(news)
            assert event.data["chain"] == [acting.root.id]
            assert event.conversation_id == event.data["conversation_id"] != acting.root.id
            await acting.session.approvals.resolve(event.data["approval_id"], "allow")
            assert (await task).text == "All done."
        assert (tmp_path / "made").exists()
        heard: list[tertulia.Event] = []
        async with asyncio.timeout(HANG_S), acting.session.events(after=0, conversation="root", attend=True) as news:
            async for event in news:
                heard.append(event)
                if event.type == "task_complete" and event.data["last_assistant_message"] == "All done.":
                    break
        foreign = [event.type for event in heard if event.conversation_id != acting.root.id]
        assert foreign == ["approval_request", "approval_resolved"]


async def test_a_stream_of_one_conversation_is_nobody_to_another(tmp_path: Path) -> None:
    """B9: who follows an answer sees what that asks for, and no more."""
    held = asyncio.Event()

    async def wait() -> str:
        """Wait."""
        await held.wait()
        return "waited"

    async with stage(call("wait"), "1", TOUCH, "2", tools=[wait], cwd=str(tmp_path)) as acting:
        other = await acting.session.open(approval_policy="untrusted")
        stream = acting.root.stream("go", approver=True)
        first = await anext(stream)
        assert first.type == "task_started"
        queue = acting.parts.command_services.approvals
        untrusted = acting.parts.conversations.find(other.id).terms.rights.approval_policy
        seen = RequestedAction(
            kind="exec", conversation_id=other.id, title="t", detail="d", subject=GrantSubject(("touch",), "/", "", "")
        )
        with pytest.raises(NoApproverError):
            await queue.ask(seen, untrusted, lambda _: None)
        asking = acting.begin(queue.ask(replace(seen, chain=(acting.root.id,)), untrusted, lambda _: None))
        await ticks()
        (waiting,) = queue.pending(acting.root.id)
        queue.resolve(waiting.approval_id, "allow")
        assert (await asking).decider.kind == "client"
        held.set()
        assert [event.type async for event in stream][-1] == "task_complete"


@pytest.mark.parametrize("scope", ["conversation", "session"])
@pytest.mark.parametrize("narrower", [{"approval_policy": "untrusted"}, {"sandbox": "read-only"}])
async def test_what_a_conversation_was_granted_is_not_lent_to_a_narrower_one(
    tmp_path: Path, scope: str, narrower: dict[str, Any]
) -> None:
    """B11: the same command, asked for by a caller with fewer rights, is asked again; and again allowed to its own."""
    need("bubblewrap")
    (tmp_path / "w").mkdir()
    made = tmp_path / "made"
    model = ScriptedModel(
        [
            escalating(made),
            "Granted.",
            lambda request: call("conv_send", {"conversation_id": target, "text": "do it"}),
            escalating(made),
            "I may not.",
            "It may not.",
            escalating(made),
            "Done.",
        ]
    )
    async with stage(model=model, cwd=str(tmp_path / "w"), invariants=False) as acting:
        wide = await acting.session.open()
        target = wide.id
        approvals = acting.session.approvals
        async with acting.session.events(attend=True) as news:
            task = acting.begin(wide.message("go"))
            first = await asked(news)
            await approvals.resolve(first.data["approval_id"], "allow", scope=scope)
            await task
            made.unlink()
            await acting.root.set_context(**narrower)
            task = acting.begin(acting.root.message("have it done"))
            again = await asked(news)
            assert (again.data["conversation_id"], again.data["chain"]) == (wide.id, [acting.root.id])
            assert again.data["matches"][0] == first.data["matches"][0]
            assert again.data["matches"] != first.data["matches"]
            await approvals.resolve(again.data["approval_id"], "deny")
            assert (await task).text == "It may not."
            assert not made.exists()
            assert len(await approvals.grants()) == 1
            await wide.message("once more")
            assert made.exists()


async def test_an_approval_cannot_be_cancelled_and_goes_on_waiting(tmp_path: Path) -> None:
    """Issue 22 (4): `cancel` is for elicitations; a grant then counts what runs by it."""
    need("bubblewrap")
    settings: dict[str, Any] = {"cwd": str(tmp_path), "approval_policy": "untrusted"}
    async with stage(TOUCH, TOUCH, "2", **settings) as acting, acting.session.events(attend=True) as news:
        task = acting.begin(acting.root.message("go"))
        event = await asked(news)
        approvals = acting.session.approvals
        with pytest.raises(InvalidParamsError, match="only an elicitation can be cancelled"):
            await approvals.resolve(event.data["approval_id"], "cancel")
        assert [waiting.approval_id for waiting in await approvals.pending()] == [event.data["approval_id"]]
        await approvals.resolve(event.data["approval_id"], "allow", scope="session")
        await task
        assert [grant.uses for grant in await approvals.grants()] == [1]
