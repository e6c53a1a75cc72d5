"""A stored session is forked at any of its records, and the fork can be resumed."""

from __future__ import annotations

import pytest

from tertulia import Session, Settings, errors
from tertulia.testing import ScriptedModel, say
from tests.rollout.homes import add_session
from tests.rollout.stages import row
from tests.session.records.looking import ASKS, Looker, files_in_home, home, recorded


def texts(page: dict[str, list[dict[str, dict[str, str]]]]) -> list[str]:
    return [event["data"]["text"] for event in page["events"] if "text" in event["data"]]


async def test_a_fork_at_a_request_begins_with_what_the_model_saw() -> None:
    """Issue 23: replays the run to the request that went wrong, and forks there."""
    session, _ = await recorded("one", "two", "three", messages=3)
    look = Looker()
    outline = await look("outline", session_id=session.id)
    second = outline["requests"][1]["n"]
    fork = (await look("fork", session_id=session.id, n=second))["session_id"]
    assert texts(await look("page", session_id=fork)) == ["question 0", "one", "question 1"]
    whole = (await look("fork", session_id=session.id))["session_id"]
    assert texts(await look("page", session_id=whole)) == [
        "question 0", "one", "question 1", "two", "question 2", "three",
    ]  # fmt: skip
    assert len({fork, whole, session.id}) == 3
    model = ScriptedModel([say("another two")])
    async with Session.resume(fork, Settings(model=model)) as again:
        assert (await again.root.message("go on")).text == "another two"
        assert [entry.text for entry in await again.root.history()][:2] == ["question 0", "one"]


async def test_a_fork_of_another_conversation_and_of_a_session_that_runs() -> None:
    session, events = await recorded(ASKS, "4", "It is 4.")
    (target,) = {event.conversation_id for event in events if event.conversation_id} - {session.root.id}
    look = Looker()
    ends = [
        span for span in (await look("outline", session_id=session.id))["spans"] if span["conversation_id"] == target
    ]
    fork = (await look("fork", session_id=session.id, n=ends[0]["last_n"]))["session_id"]
    assert texts(await look("page", session_id=fork)) == ["What is 2 + 2?", "4"]
    named = (await look("fork", session_id=session.id, conversation_id=target))["session_id"]
    assert texts(await look("page", session_id=named)) == ["What is 2 + 2?", "4"]
    running = await look.host.start(Settings(model=ScriptedModel(["live"])))
    await running.root.message("hello")
    live = (await look("fork", session_id=running.id, n=10**6, conversation_id=running.root.id))["session_id"]
    assert texts(await look("page", session_id=live)) == ["hello", "live"]
    await look.host.close()


async def test_a_fork_keeps_the_policy_and_the_times_of_its_original() -> None:
    """S002-44: nothing is stored longer, or more of it, because it was copied."""
    session, _ = await recorded("secret", storage_policy="headers_only")
    look = Looker()
    fork = (await look("fork", session_id=session.id))["session_id"]
    entry = next(one for one in (await look("list"))["records"] if one["session_id"] == fork)
    assert entry["storage"] == "none"
    assert b"secret" not in (home() / "sessions" / f"{fork}.db").read_bytes()


async def test_a_fork_that_cannot_be_made_leaves_nothing() -> None:
    session, _ = await recorded("one")
    empty = add_session(home(), [row(1, None, kind="session", type="session", conversation=0, header=b"{}")])
    look = Looker()
    before = files_in_home()
    for params in (
        {"session_id": session.id, "n": 1},
        {"session_id": session.id, "conversation_id": "nobody"},
        {"session_id": session.id, "conversation_id": "nobody", "n": 5},
        {"session_id": "00000000-1111-4222-8333-444444444444"},
        {"session_id": "../x", "n": 1},
    ):
        with pytest.raises(errors.NotFoundError):
            await look("fork", **params)
    with pytest.raises(errors.StorageError):
        await look("fork", session_id=empty.session_id, n=1)
    assert files_in_home() == before


async def test_a_fork_at_a_record_before_a_compaction_has_the_history_of_then() -> None:
    """The history was rewritten since, and the record still has what the model saw."""
    model = ScriptedModel([say("one"), say("two"), say("in short"), say("three")])
    async with Session.start(Settings(model=model)) as session:
        for text in ("first " * 500, "second " * 500):
            await session.root.message(text)
        assert (await session.root.compact()).compacted
        await session.root.message("third")
    look = Looker()
    outline = await look("outline", session_id=session.id)
    fork = (await look("fork", session_id=session.id, n=outline["requests"][1]["n"]))["session_id"]
    assert texts(await look("page", session_id=fork)) == ["first " * 500, "one", "second " * 500]
