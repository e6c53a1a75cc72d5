"""A function that answers approvals, and what becomes of one that does not."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tertulia.errors import InvalidParamsError
from tertulia.protocol.tool_events import ApprovalRequest
from tertulia.testing import call
from tests.deadlines import HANG_S
from tests.sandbox.confined import need
from tests.session.staging import Stage, stage

TOUCH = call("shell", {"command": ["touch", "made"]})


def asking(folder: Path, **more: Any) -> dict[str, Any]:
    return {"cwd": str(folder), "approval_policy": "untrusted", **more}


def outcome(stage: Stage) -> tuple[bool, str]:
    """Of the newest call of the root."""
    output = stage.outputs(stage.root)[-1]
    return output.success, output.text


def warnings(stage: Stage) -> list[str]:
    return [event.data["message"] for event in stage.events.drain() if event.type == "warning"]


async def test_a_function_answers_and_counts_as_somebody(tmp_path: Path) -> None:
    """Issue 7: sync in a thread of its own, async on the loop; a no is a no."""
    need("bubblewrap")
    seen: list[tuple[ApprovalRequest, str]] = []

    def plain(request: ApprovalRequest) -> str:
        seen.append((request, threading.current_thread().name))
        return "allow"

    async def later(request: ApprovalRequest) -> dict[str, Any]:
        await asyncio.sleep(0)
        seen.append((request, threading.current_thread().name))
        return {"decision": "deny", "message": "not this time"}

    async with stage(TOUCH, "1", TOUCH, "2", TOUCH, "3", **asking(tmp_path)) as acting:
        async with acting.session.approvals.answer_with(plain):
            await acting.root.message("1")
        assert outcome(acting)[0]
        (tmp_path / "made").unlink()
        handler = acting.session.approvals.answer_with(later)
        await acting.root.message("2")
        assert "the user said no: not this time" in outcome(acting)[1]
        handler.close()
        handler.close()
        await acting.root.message("3")
        assert msgspec.json.decode(outcome(acting)[1])["code"] == "no_approver"
        assert [request.title for request, _ in seen] == ["run: touch made"] * 2
        assert (seen[0][1] != "MainThread", seen[1][1] == "MainThread") == (True, True)
        assert not (tmp_path / "made").exists()
        assert warnings(acting) == []


async def test_it_may_allow_for_longer(tmp_path: Path) -> None:
    need("bubblewrap")
    approval_ids: list[str] = []

    def handler(request: ApprovalRequest) -> dict[str, Any]:
        approval_ids.append(request.approval_id)
        return {"decision": "allow", "scope": "session", "ttl_s": 60}

    async with stage(TOUCH, "1", TOUCH, "2", **asking(tmp_path)) as acting:
        async with acting.session.approvals.answer_with(handler):
            await acting.root.message("1")
            await acting.root.message("2")
        assert len(approval_ids) == 1
        (grant,) = await acting.session.approvals.grants()
        assert grant.scope == "session"


async def raising(request: ApprovalRequest) -> str:
    raise ValueError("a secret detail")


async def cancelling(request: ApprovalRequest) -> str:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("handler", "why"),
    [
        (raising, "failed: ValueError"),
        (cancelling, "was cancelled"),
        (lambda request: None, "no answer that can be used: it must be 'allow', 'deny' or a mapping, not NoneType"),
        (lambda request: True, "not bool"),
        (lambda request: "yes", "no answer that can be used"),
        (lambda request: {"decision": "allow", "scope": "for ever"}, "no answer that can be used"),
        (lambda request: {"decision": "allow", "ttl_s": 5}, "no answer that can be used"),
        (lambda request: {"decision": "allow", "approval_id": "another", "x": 1}, "no answer that can be used"),
    ],
)
async def test_what_is_no_answer_is_a_no_with_a_warning(tmp_path: Path, handler: Any, why: str) -> None:
    """Fails closed, and says so without what was in the error."""
    async with stage(TOUCH, "Well.", **asking(tmp_path)) as acting:
        acting.session.approvals.answer_with(handler)
        assert (await acting.root.message("go")).text == "Well."
        success, text = outcome(acting)
        assert (success, msgspec.json.decode(text)["code"]) == (False, "approval_denied")
        (warning,) = warnings(acting)
        assert why in warning
        assert "secret" not in warning
        assert not (tmp_path / "made").exists()


async def test_one_that_takes_too_long_is_stopped_and_that_is_a_no(tmp_path: Path) -> None:
    stopped = asyncio.Event()

    async def endless(request: ApprovalRequest) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "allow"

    async with stage(TOUCH, "Well.", **asking(tmp_path, approval_timeout_s=0.05)) as acting:
        acting.session.approvals.answer_with(endless)
        await acting.root.message("go")
        assert "no approver answered within 0.05 s" in outcome(acting)[1]
        await asyncio.wait_for(stopped.wait(), HANG_S)
        assert any("did not answer in time" in warning for warning in warnings(acting))
        assert not (tmp_path / "made").exists()


async def test_a_person_may_be_quicker_and_what_already_waits_is_asked_too(tmp_path: Path) -> None:
    need("bubblewrap")
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def slow(request: ApprovalRequest) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "deny"

    async with stage(TOUCH, "Done.", **asking(tmp_path)) as acting, acting.session.events(attend=True):
        task = acting.begin(acting.root.message("go"))
        await acting.until("approval_request")
        acting.session.approvals.answer_with(slow, "root")
        await asyncio.wait_for(begun.wait(), HANG_S)
        (waiting,) = await acting.session.approvals.pending()
        await acting.session.approvals.resolve(waiting.approval_id, "allow")
        await task
        await asyncio.wait_for(stopped.wait(), HANG_S)
        assert outcome(acting)[0]
        assert warnings(acting) == []


async def test_one_for_a_conversation_is_not_asked_about_others(tmp_path: Path) -> None:
    """B9"""
    async with stage(TOUCH, "1", **asking(tmp_path)) as acting:
        other = await acting.session.open()
        acting.session.approvals.answer_with(lambda request: "allow", other.id)
        await acting.root.message("go")
        assert msgspec.json.decode(outcome(acting)[1])["code"] == "no_approver"
        assert not (tmp_path / "made").exists()


async def test_a_session_that_closes_takes_its_handlers_with_it(tmp_path: Path) -> None:
    async with stage(TOUCH, "1", **asking(tmp_path)) as acting:
        begun = asyncio.Event()

        async def endless(request: ApprovalRequest) -> str:
            begun.set()
            await asyncio.Event().wait()
            return "allow"

        acting.session.approvals.answer_with(endless)
        task = acting.begin(acting.root.message("go"))
        await asyncio.wait_for(begun.wait(), HANG_S)
        await acting.session.close()
        assert (await task).status == "interrupted"
        assert not (tmp_path / "made").exists()


async def test_what_is_no_function_is_refused(tmp_path: Path) -> None:
    async with stage(cwd=str(tmp_path)) as acting:
        with pytest.raises(InvalidParamsError, match="function"):
            acting.session.approvals.answer_with("allow")  # type: ignore[arg-type]
