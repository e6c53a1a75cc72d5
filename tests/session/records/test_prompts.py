"""A request of a stored session is shown as it was sent, proved, and compared with the one before."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tertulia import Session, Settings, errors
from tertulia.session.records import prompts
from tertulia.testing import ScriptedModel, say
from tests.rollout.homes import add_session, encoded, session_rows
from tests.rollout.stages import row
from tests.session.records.looking import ASKS, Looker, home, recorded
from tests.tables import each_row

CANARY = "canary-30bd"


async def requests(look: Looker, session_id: str) -> list[int]:
    return [request["n"] for request in (await look("outline", session_id=session_id))["requests"]]


async def test_a_request_is_proved_and_says_what_is_new_in_it() -> None:
    """S002-15, UI.md 7.5: parts, bytes, digests, the verdict, and what a cache of the provider can have."""
    session, _ = await recorded("one", "two", messages=2)
    look = Looker()
    first, second = await requests(look, session.id)
    before = await look("prompt", session_id=session.id, n=first)
    now = await look("prompt", session_id=session.id, n=second)
    assert (before["verdict"], before["before"], before["cached_prefix_bytes"]) == ("same", None, 0)
    assert (now["verdict"], now["sentence"]) == ("same", "rebuilt, byte for byte what was sent")
    assert [part["name"] for part in now["parts"][:3]] == ["instructions", "tools", "item"]
    same = len(before["parts"])
    assert now["before"] == {"n": first, "same_parts": same, "first_difference": same, "removed_parts": 0}
    assert now["cached_prefix_bytes"] == before["bytes"] < now["bytes"]
    new = [(part["type"], part["role"], part["text"]) for part in now["parts"][len(before["parts"]) :]]
    assert new == [("assistant", "assistant", "one"), ("user", "user", "question 1")]
    assert now["next_offset"] is None
    assert now["conversation_id"] == session.root.id
    assert "scripted" in now["model"]


async def test_calls_outputs_and_notes_have_their_own_words() -> None:
    session, _ = await recorded(ASKS, "4", "It is 4.")
    look = Looker()
    last = (await requests(look, session.id))[-1]
    parts = (await look("prompt", session_id=session.id, n=last))["parts"]
    (call,) = [part for part in parts if part.get("type") == "tool_call"]
    assert (call["tool"], call["role"], json.loads(call["text"])["title"]) == ("conv_create", "assistant", "sums")
    assert [part["role"] for part in parts if part.get("type") == "tool_output"] == ["tool"]


async def test_long_texts_come_in_pieces_that_make_up_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    session, _ = await recorded("an answer that is longer than a piece", "x", messages=2)
    look = Looker()
    last = (await requests(look, session.id))[-1]
    whole = await look("prompt", session_id=session.id, n=last)
    monkeypatch.setattr(prompts, "TEXT_CHARACTERS", 700)
    texts: dict[int, str] = {}
    offset: int | None = 0
    listed = 0
    while offset is not None:
        answer = await look("prompt", session_id=session.id, n=last, offset=offset)
        listed = max(listed, len(answer["parts"]))
        for part in answer["parts"]:
            if part.get("text"):
                assert part.get("text_offset", 0) == len(texts.get(part["index"], ""))
                texts[part["index"]] = texts.get(part["index"], "") + part["text"]
        offset = answer["next_offset"]
    assert texts == {part["index"]: part["text"] for part in whole["parts"] if part["text"]}
    assert listed == len(whole["parts"]), "the first answer names every part"


@each_row(("policy", "reason"), [("headers_only", "headers_only"), ({"ttl": 0.001}, "expired")])
async def test_what_is_not_stored_is_not_shown_nor_made_up(policy: Any, reason: str) -> None:
    """S002-44: neither the texts nor instructions that would stand in their place."""
    settings = Settings(model=ScriptedModel([say("one", repeat=True)]), storage_policy=policy)
    async with Session.start(settings) as session:
        await session.root.set_context(base_instructions=CANARY)
        await session.root.message("first")
    look = Looker()
    last = (await requests(look, session.id))[-1]
    answer = await look("prompt", session_id=session.id, n=last)
    assert answer["verdict"] == "unknown"
    assert "not stored" in answer["sentence"]
    assert {part.get("not_stored") for part in answer["parts"]} == {reason}
    assert not any(part.get("text") for part in answer["parts"])
    assert CANARY not in json.dumps(answer)


async def test_a_fork_within_a_session_has_the_history_of_its_original() -> None:
    model = ScriptedModel([say("one"), say("two"), say("three")])
    async with Session.start(Settings(model=model)) as session:
        await session.root.message("first")
        fork = await session.root.fork()
        again = await fork.fork()
        await again.message("second")
    look = Looker()
    last = (await requests(look, session.id))[-1]
    answer = await look("prompt", session_id=session.id, n=last)
    assert (answer["verdict"], answer["conversation_id"], answer["before"]) == ("same", again.id, None)
    assert [part["text"] for part in answer["parts"] if part.get("role")][-3:] == ["first", "one", "second"]


async def test_a_history_that_was_exchanged_is_different_unless_damage_explains_it() -> None:
    session, _ = await recorded("one", "two", messages=2)
    look = Looker()
    last = (await requests(look, session.id))[-1]
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(home() / "sessions" / f"{session.id}.db")) as connection:
        connection.execute("DELETE FROM record WHERE kind = 'said' AND type = 'assistant' AND n < ?", (last,))
        connection.commit()
    answer = await look("prompt", session_id=session.id, n=last)
    assert (answer["verdict"], answer["sentence"]) == ("different", "different: history")
    with closing(sqlite3.connect(home() / "sessions" / f"{session.id}.db")) as connection:
        connection.execute("UPDATE record SET header_crc = 1 WHERE type = 'token_count' AND n < ?", (last,))
        connection.commit()
    answer = await look("prompt", session_id=session.id, n=last)
    assert (answer["verdict"], "damaged" in answer["sentence"]) == ("unknown", True)


async def test_a_record_that_is_no_request_is_not_found() -> None:
    session, _ = await recorded("one")
    look = Looker()
    for n in (0, 1, 10**6):
        with pytest.raises(errors.NotFoundError, match="no request"):
            await look("prompt", session_id=session.id, n=n)
    for wrong in ({"n": -1}, {"n": "x"}, {}, {"n": 1, "offset": -1}):
        with pytest.raises(errors.InvalidParamsError):
            await look("prompt", session_id=session.id, **wrong)


async def test_a_request_that_another_program_wrote_misleads_no_reader() -> None:
    """HARDENING: forks that lead in a circle, and a request of a conversation that is not there."""
    rows = [
        row(20, None, kind="forked", type="", conversation=3, header=encoded(**{"from": "~u", "items": 1})),
        row(21, None, kind="asked", type="", conversation=3, header=encoded(items=1)),
        row(22, None, kind="asked", type="", conversation=99, header=encoded(items=1)),
        row(23, None, kind="asked", type="", conversation=3, header=b"["),
    ]
    files = add_session(home(), [*session_rows("hello"), *rows])
    look = Looker()
    assert (await look("prompt", session_id=files.session_id, n=21))["verdict"] != "same"
    for n in (22, 23):
        with pytest.raises(errors.NotFoundError):
            await look("prompt", session_id=files.session_id, n=n)


# ── searching ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_texts_are_found_with_their_record_and_conversation() -> None:
    """S001-33: in all sessions, the newest first, or in one."""
    one, _ = await recorded(f"{CANARY} one")
    two, events = await recorded(ASKS, f"{CANARY} two", "It is 4.")
    look = Looker()
    found = await look("search", query=CANARY.upper())
    assert next(hit["session_id"] for hit in found["hits"]) == two.id
    assert {hit["session_id"] for hit in found["hits"]} == {one.id, two.id}
    assert found["more"] is False
    (hit,) = (await look("search", query=CANARY, session_id=one.id))["hits"]
    assert (hit["conversation_id"], hit["type"]) == (one.root.id, "assistant")
    board = await look("board", session_id=one.id, at_n=hit["n"] + 1)
    assert CANARY in json.dumps(board), "the number leads to the place"
    assert (await look("search", query=CANARY, limit=1))["more"] is True
    targets = {event.conversation_id for event in events if event.conversation_id} - {two.root.id}
    assert {hit["conversation_id"] for hit in (await look("search", query=f"{CANARY} two"))["hits"]} & targets


async def test_a_search_obeys_policies_ends_early_and_refuses_nonsense(monkeypatch: pytest.MonkeyPatch) -> None:
    session, _ = await recorded(CANARY, storage_policy="headers_only")
    await recorded("something", storage_policy="full")
    look = Looker()
    assert await look("search", query=CANARY) == {"hits": [], "more": False}
    from tertulia.session.records import search

    monkeypatch.setattr(search, "MAX_BYTES", 1)
    assert (await look("search", query="something"))["more"] is True
    for wrong in ({"query": ""}, {"query": "x" * 1_001}, {"query": "x", "limit": 0}, {"query": "x", "limit": 501}, {}):
        with pytest.raises(errors.InvalidParamsError):
            await look("search", **wrong)
    for id in ("../x", "00000000-1111-4222-8333-444444444444"):
        with pytest.raises(errors.NotFoundError):
            await look("search", query="x", session_id=id)
    assert session.closed
