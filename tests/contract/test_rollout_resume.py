"""Sessions that come back, from Python, by somebody who has only read the public page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia import errors
from tertulia.testing import FakeClock, ScriptedModel, call
from tests.contract.python_session import past, soon, start_session
from tests.sandbox.confined import need
from tests.tables import each_row

NOWHERE = "00000000-0000-4000-8000-000000000000"
POLICIES: list[Any] = ["full", "headers_only", "none", {"ttl": 1000}]


def resumed(id: Any, *replies: Any, clock: FakeClock | None = None, **settings: Any) -> tertulia.Session:
    """The session of that id, with another model."""
    return tertulia.Session.resume(id, tertulia.Settings(model=ScriptedModel(list(replies)), **settings), clock=clock)


def stored(word: str) -> list[str]:
    """The files of the data directory in which this word stands."""
    home = Path(os.environ["TERTULIA_HOME"])
    files = [file for file in home.rglob("*") if file.is_file()]
    return [file.name for file in files if word.encode() in file.read_bytes()]


async def lived(*replies: Any, **settings: Any) -> str:
    """A session in which one thing was asked and answered, and which is over."""
    async with start_session(*(replies or ("Noted.",)), **settings) as session:
        await soon(session.root.message("The key is under the mat.", message_id="first"))
    return session.id


# ---- which session


@each_row("id", ["nope", "../x", "a\0b", "", "x" * 4096, None, 3])
async def test_what_is_no_id_is_not_found(id: Any) -> None:
    """E9: no path is made of it, and nothing else."""
    with pytest.raises(errors.NotFoundError, match="a session id"):
        await resumed(id).__aenter__()
    assert not Path(os.environ["TERTULIA_HOME"]).exists()


async def test_an_id_that_no_session_has_is_not_found_and_nothing_is_made() -> None:
    with pytest.raises(errors.NotFoundError, match=NOWHERE) as refused:
        await resumed(NOWHERE).__aenter__()
    assert refused.value.code == "not_found"
    assert not Path(os.environ["TERTULIA_HOME"]).exists()


async def test_a_second_owner_is_told_who_has_it_and_how_to_watch() -> None:
    """F9: nothing of the first one changes."""
    async with start_session("One.", "Two.") as session:
        await session.root.message("1")
        with pytest.raises(errors.BusyError) as refused:
            await resumed(session.id).__aenter__()
        assert refused.value.code == "busy"
        for word in (session.id, f"{session.id}.db", str(os.getpid()), "--follow"):
            assert word in refused.value.message
        assert (await session.root.message("2")).text == "Two."
    async with resumed(session.id) as again:
        assert [entry.text for entry in await again.root.history()] == ["1", "One.", "2", "Two."]


# ---- what comes back


async def test_the_tree_the_context_and_the_plan_come_back_and_nothing_runs() -> None:
    """Issue 5, 4."""
    plan = {"plan": [{"step": "Look", "status": "in_progress"}]}
    async with start_session(call("update_plan", plan), "Planned.") as session:
        child = await session.open(base_instructions="You are brief.", title="kid", include_plan_tool=False)
        await session.root.message("go")
    async with resumed(session.id) as again:
        assert (again.id, again.root.id) == (session.id, session.root.id)
        assert [(one.id, one.info.title, one.info.status) for one in again.conversations()] == [
            (session.root.id, None, "idle"), (child.id, "kid", "idle"),
        ]  # fmt: skip
        context = await again.conversation(child.id).context()
        assert (context.base_instructions, context.tools_prefs["include_plan_tool"]) == ("You are brief.", False)
        assert [entry.text for entry in await again.root.history()] == ["go", "Planned."]
        (updated,) = [event for event in await past(again) if event.type == "plan_update"]
        assert updated.data["plan"][0]["step"] == "Look"
        assert {event.epoch for event in await past(again) if event.seq is not None} == {1}


async def test_a_message_that_is_sent_again_gets_the_answer_of_then() -> None:
    """S002-47, X-37: the model is not asked, whatever life it is."""
    id = await lived("Noted.")
    answers: list[tertulia.Reply] = []
    for _ in range(2):
        async with resumed(id, "Never.") as again:
            answers.append(await soon(again.root.message("The key is under the mat.", message_id="first")))
            assert [entry.text for entry in await again.root.history()] == ["The key is under the mat.", "Noted."]
    assert {(answer.text, answer.status) for answer in answers} == {("Noted.", "completed")}
    assert len({(answer.task_id, answer.trace_id) for answer in answers}) == 1
    assert [answer.usage for answer in answers] == [answers[0].usage] * 2
    async with resumed(id, "Another.") as again:
        assert (await soon(again.root.message("The key is under the mat.", message_id="second"))).text == "Another."


async def test_a_session_whose_model_was_an_object_comes_back_to_be_read() -> None:
    """`Session.resume(id)`: the model comes from the record; this one cannot, and says so when it is asked."""
    async with tertulia.Session.resume(await lived("Noted.")) as again:
        assert [entry.text for entry in await again.root.history()] == ["The key is under the mat.", "Noted."]
        reply = await soon(again.root.message("Where is it?"))
    assert reply.status == "failed"
    assert reply.error is not None
    assert reply.error.code == "model_error"
    assert "name another model" in reply.error.message


@each_row("child", POLICIES, ids=str)
@each_row("root", POLICIES, ids=str)
async def test_a_chain_that_was_whole_is_not_told_to_be_broken(root: Any, child: Any) -> None:
    """F10, S004-18: its call had its one end, whatever the policies keep of it."""
    ids: list[str] = []
    send = {"tool_calls": [{"name": "conv_send", "arguments": {"text": "Well?"}}]}

    def ask(_: Any) -> Any:
        send["tool_calls"][0]["arguments"]["conversation_id"] = ids[0]
        return send

    async with start_session(ask, "Child.", "Parent.", storage_policy=root) as session:
        ids.append((await session.open(storage_policy=child)).id)
        assert (await soon(session.root.message("go"))).text == "Parent."
    async with resumed(session.id, storage_policy=root) as again:
        events = [event for event in await past(again) if event.seq is not None]
        assert [event.type for event in events if event.type != "warning"] == ["session_configured"]
        assert {event.data["code"] for event in events if event.type == "warning"} <= {"not_stored"}


async def test_a_conversation_in_which_nothing_was_said_has_forgotten_nothing() -> None:
    """S002-15: a task without a message, such as a compaction of nothing, is no sign of a lost text."""
    async with start_session("Hi.") as session:
        child = await session.open(title="quiet")
        assert not (await soon(child.compact()))["compacted"]
    later = ScriptedModel(["Fine."])
    async with tertulia.Session.resume(session.id, tertulia.Settings(model=later)) as again:
        assert not [event for event in await past(again) if event.type == "warning"]
        await soon(again.conversation(child.id).message("And?"))
    assert not any("not_stored" in getattr(item, "text", "") for item in later.requests[0].items)


async def test_it_works_where_it_did_and_not_where_somebody_resumes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A8: its own directory may be written again, the one of the process that brings it back may not."""
    need("bubblewrap")
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(here)
    id = await lived("Noted.")
    monkeypatch.chdir(elsewhere)
    touch = [call("shell", {"command": ["touch", str(place / "made")]}) for place in (here, elsewhere)]
    async with resumed(id, *touch, "Done.") as again:
        assert (await soon(again.root.message("go"))).status == "completed"
    assert ((here / "made").exists(), (elsewhere / "made").exists()) == (True, False)


# ---- what does not


async def test_the_answer_of_a_stricter_child_is_a_placeholder_in_its_parent() -> None:
    """S002-16: the policy travels; what the caller says itself is its own."""
    ids: list[str] = []
    parent = ScriptedModel(
        [lambda _: call("conv_send", {"conversation_id": ids[0], "text": "Well?"}), "CANARYTWO", "So."]
    )
    async with tertulia.Session.start(tertulia.Settings(model=parent)) as session:
        ids.append((await session.open(storage_policy="headers-only")).id)
        assert (await soon(session.root.message("go"))).text == "So."
    assert not stored("CANARYTWO")
    later = ScriptedModel(["Fine."])
    async with tertulia.Session.resume(session.id, tertulia.Settings(model=later)) as again:
        await soon(again.root.message("And?"))
    (output,) = [item for item in later.requests[0].items if type(item).__name__ == "ToolOutput"]
    assert output.text.startswith("[not stored")
    assert output.success


@pytest.mark.parametrize("policy", ["headers_only", "none"])
async def test_what_is_not_stored_is_said_and_the_conversation_goes_on(policy: str) -> None:
    """S002-16, S002-17, S002-19: no text anywhere, and a clear answer about what cannot be restored."""
    id = await lived("CANARYANSWER", storage_policy=policy)
    assert not stored("CANARYANSWER")
    assert not stored("under the mat")
    later = ScriptedModel(["Fine."])
    async with tertulia.Session.resume(id, tertulia.Settings(model=later, storage_policy=policy)) as again:
        (warning,) = [event for event in await past(again) if event.type == "warning"]
        assert warning.data["code"] == "not_stored"
        assert f"storage policy is {policy}" in warning.data["message"]
        assert await again.root.history() == []
        assert (await soon(again.root.message("Where is it?"))).text == "Fine."
    assert any("was not stored" in item.text for item in later.requests[0].items)


@pytest.mark.parametrize("action", ["headers_only", "delete"])
async def test_after_its_time_a_session_has_no_texts_and_can_be_gone_on_with(action: str) -> None:
    """S002-18, X-31, E4: gone at the next start, before anything is served; how it began stays."""
    clock = FakeClock()
    settings: dict[str, Any] = {"storage_policy": {"ttl": 60}, "retention": {"ttl_action": action}}
    model = ScriptedModel(["CANARYANSWER"])
    async with tertulia.Session.start(tertulia.Settings(model=model, **settings), clock=clock) as session:
        await session.root.message("The key is under the mat.")
    assert stored("CANARYANSWER")
    clock.advance(61)
    async with resumed(session.id, "Fine.", clock=clock, **settings) as again:
        assert not stored("CANARYANSWER")
        assert not stored("under the mat")
        assert again.root.id == session.root.id
        assert (await soon(again.root.message("Where is it?"))).text == "Fine."


async def test_a_stricter_policy_erases_what_was_stored_before_it_answers() -> None:
    """E5."""
    async with start_session("CANARYANSWER", "More.") as session:
        await session.root.message("The key is under the mat.")
        assert stored("CANARYANSWER")
        await session.root.set_context(storage_policy=tertulia.HeadersOnly())
        assert not stored("CANARYANSWER")
        assert not stored("under the mat")
        assert (await session.root.message("Still there?")).text == "More."
