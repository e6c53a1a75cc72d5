"""Every prompt can be rebuilt from the record, and whatever is not as it was is found."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest
from msgspec.structs import replace

import tertulia
from tertulia.protocol.items import Item, TextPart, ToolCall, ToolOutput, UserMessage
from tertulia.protocol.records import ItemsRecord, ModelRequestRecord, TermsRecord
from tertulia.rollout.format.record_lines import RecordLine
from tertulia.rollout.sqlite.session_index import find_files
from tertulia.session.resume.replay_verification import RequestVerdict, verify_requests
from tertulia.session.session import Session
from tertulia.testing import ScriptedModel, call, say
from tests.session.stored import home, lines

PLAN = call("update_plan", {"plan": [{"step": "look", "status": "in_progress"}]})
SECRET = "sk-ant-api03-" + "x1Y2" * 10


def settings(*replies: object, **fields: object) -> tertulia.Settings:
    return tertulia.Settings(model=ScriptedModel(list(replies)), **fields)


async def talked(*replies: object, text: str = "hello", **fields: object) -> str:
    """The id of a session in which somebody said something."""
    async with Session.start(settings(*replies, **fields)) as session:
        await session.root.message(text)
    return session.id


def outcomes(verdicts: list[RequestVerdict]) -> list[str]:
    return [verdict.outcome for verdict in verdicts]


async def test_every_prompt_of_a_long_life_comes_out_as_it_was_sent() -> None:
    """S002-15: tools, delegation, forks, changed terms, steering, compaction, an answer's form, and a resume."""
    child = call("conv_create", {"user_instruction": "look", "base_instruction_text": "Brief."})
    script = [
        say("", PLAN),
        "planned",
        say("", child),
        "looked",
        "done",
        "forked",
        "not in the form",
        '{"changed": true}',
        "short",
        "notes",
        "after",
    ]
    async with Session.start(settings(*script)) as session:
        await session.root.message("plan")
        await session.root.message("delegate")
        fork = await session.root.fork(at=1)
        await fork.message("from here")
        await session.root.set_context(base_instructions="In French.", user_instructions="Always.", cwd="/usr")
        await session.root.message("and now", output_schema={"type": "object"})
        await session.root.message("again")
        assert (await session.root.compact()).compacted
        await session.root.message("after the notes")
    async with Session.resume(session.id, settings("one more", "and another")) as again:
        await again.root.message("resumed")
        await again.conversation(fork.id).message("resumed as well")
    verdicts = list(verify_requests(lines(session.id)))
    assert outcomes(verdicts) == ["same"] * 13
    assert len({verdict.conversation_id for verdict in verdicts}) == 3


async def test_a_request_for_notes_is_proved_like_any_other_and_a_changed_word_is_found_in_it() -> None:
    """S002-15: compaction asks a model too."""
    async with Session.start(settings("first", "second", "third", "notes", "after")) as session:
        for word in ("alpha", "beta", "gamma"):
            await session.root.message(word)
        assert (await session.root.compact()).compacted
        await session.root.message("delta")

    def forged(line: RecordLine) -> RecordLine:
        if isinstance(line.what, ItemsRecord) and any(getattr(item, "text", "") == "alpha" for item in line.what.items):
            return replace(line, what=replace(line.what, items=tuple(with_text(i, "omega") for i in line.what.items)))
        return line

    assert outcomes(list(verify_requests(lines(session.id)))) == ["same"] * 5
    (record,) = [
        line.what for line in lines(session.id) if isinstance(line.what, ModelRequestRecord) and line.what.summarises
    ]
    assert record.override is not None
    assert outcomes(changed(session.id, forged))[3] == "different"


async def test_a_session_in_which_nobody_was_asked_has_nothing_to_compare() -> None:
    async with Session.start(settings()) as session:
        pass
    assert list(verify_requests(lines(session.id))) == []


# ── what is not as it was ────────────────────────────────────────────────────────────────────────────────────


def changed(session_id: str, what: Callable[[RecordLine], RecordLine]) -> list[RequestVerdict]:
    return list(verify_requests([what(line) for line in lines(session_id)]))


def with_text(item: Item, text: str) -> Item:
    assert isinstance(item, UserMessage | ToolOutput)
    return replace(item, parts=(TextPart(text),))


async def test_a_word_that_was_changed_later_is_found_in_every_prompt_that_has_it() -> None:
    async with Session.start(settings("first", "second")) as session:
        await session.root.message("one")
        await session.root.message("two")

    def forge(line: RecordLine) -> RecordLine:
        record = line.what
        if isinstance(record, ItemsRecord) and any(getattr(item, "text", "") == "two" for item in record.items):
            return replace(line, what=replace(record, items=tuple(with_text(item, "2") for item in record.items)))
        return line

    verdicts = changed(session.id, forge)
    assert outcomes(verdicts) == ["same", "different"]
    assert verdicts[1].because == "history"


@pytest.mark.parametrize(
    ("field", "value", "because"),
    [
        ("tools_json", b'["apply_patch"]', "instructions, tools"),
        ("override", "Something else.", "instructions"),
        ("output_schema", "{}", "the form of the answer"),
    ],
)
async def test_each_part_of_a_request_is_compared(field: str, value: object, because: str) -> None:
    session_id = await talked("fine")

    def forge(line: RecordLine) -> RecordLine:
        return (
            replace(line, what=replace(line.what, **{field: value}))
            if isinstance(line.what, ModelRequestRecord)
            else line
        )

    (verdict,) = changed(session_id, forge)
    assert (verdict.outcome, verdict.because) == ("different", because)


# ── what cannot be known ─────────────────────────────────────────────────────────────────────────────────────


async def test_what_was_not_stored_cannot_be_compared_and_is_not_called_different() -> None:
    """S002-16: a record of headers has the digests, and none of the texts."""
    (verdict,) = verify_requests(lines(await talked("fine", storage_policy="headers_only")))
    assert verdict.outcome == "unknown"
    assert "the instructions are not stored" in verdict.because
    assert "texts are not stored" in verdict.because


def is_first_message_or_call(line: RecordLine) -> bool:
    record = line.what
    return isinstance(record, ItemsRecord) and (record.seed or isinstance(record.items[0], ToolCall))


async def test_a_prompt_that_was_made_of_what_had_not_expired_is_not_called_different() -> None:
    """E4: its first message and a call had expired; an output without its call made up for one of them in the count."""
    fields = {"storage_policy": {"ttl": 1e6}, "retention": {"ttl_action": "delete"}}
    id = await talked(say("", PLAN), "fine", **fields)
    expired = [line.n for line in lines(id) if is_first_message_or_call(line)]
    with closing(sqlite3.connect(find_files(home(), id).db)) as stored, stored:
        stored.executemany("UPDATE record SET expires = 1 WHERE n = ?", [(n,) for n in expired])
    async with Session.resume(id, settings("again", **fields)) as session:
        await session.root.message("and now")
    left = lines(id)
    assert len(expired) == 2
    assert not {line.n for line in left} & set(expired)
    assert outcomes(list(verify_requests(left))) == ["unknown"] * 3


async def test_a_secret_that_was_redacted_makes_a_prompt_unknown() -> None:
    """HARDENING E6: the record has something else than what was sent, on purpose."""
    (verdict,) = verify_requests(lines(await talked("fine", text=f"my key is {SECRET}")))
    assert (verdict.outcome, verdict.because) == ("unknown", "secrets were redacted")


async def test_a_secret_in_instructions_makes_a_prompt_unknown_too() -> None:
    """HARDENING E6; issue 17, item 15: in those of the conversation, and in those of one task."""
    for instructions, override in ((f"use {SECRET}", None), ("be brief", f"use {SECRET}")):
        async with Session.start(settings("fine")) as session:
            there = await session.open(base_instructions=instructions)
            await there.message("hello", base_instructions_override=override)
        (verdict,) = verify_requests(lines(session.id))
        assert (verdict.outcome, verdict.because) == ("unknown", "secrets were redacted")


async def test_instructions_of_one_task_are_proved_with_it() -> None:
    """S002-15; issue 17, item 15: through steering and continuations, after a resume, and gone with the task."""

    @tertulia.tool
    async def look() -> str:
        """Somebody puts in a word meanwhile."""
        await session.root.steer("be quick")
        return "seen"

    child = call("conv_create", {"user_instruction": "Say hello."})
    model = ScriptedModel([call("look", {}), child, "Hello.", "It said hello.", "later"])
    async with Session.start(tertulia.Settings(model=model, tools=[look])) as session:
        assert (await session.root.message("go", base_instructions_override="Only today.")).text == "It said hello."
        await session.root.message("and now?")
    assert [request.instructions == "Only today." for request in model.requests] == [True, True, False, True, False]
    async with Session.resume(session.id, tertulia.Settings(model=ScriptedModel(["back", "own"]))) as again:
        assert "Only today." not in str(await again.root.context())
        await again.root.message("hi", base_instructions_override="Now.")
        await again.root.message("bye")
    assert outcomes(list(verify_requests(lines(session.id)))) == ["same"] * 7


async def test_damaged_records_make_what_follows_unknown() -> None:
    session_id = await talked("fine")

    def damage(line: RecordLine) -> RecordLine:
        record = line.what
        return (
            RecordLine(line.n, line.ts, None, damaged=(line.n,))
            if isinstance(record, ItemsRecord) and not record.seed
            else line
        )

    verdicts = changed(session_id, damage)
    assert outcomes(verdicts) == ["unknown"]
    assert "records are damaged" in verdicts[0].because


async def test_terms_that_make_no_sense_are_said_and_stop_nothing() -> None:
    """HARDENING E8: whatever stands in a record is data."""
    session_id = await talked("fine")

    def forge(line: RecordLine) -> RecordLine:
        return (
            replace(line, what=replace(line.what, place={"depth": "x"})) if isinstance(line.what, TermsRecord) else line
        )

    (verdict,) = changed(session_id, forge)
    assert verdict.outcome == "unknown"
    assert "cannot be read" in verdict.because


async def test_a_request_of_a_conversation_that_nobody_knows_is_unknown() -> None:
    alone = [line for line in lines(await talked("fine")) if isinstance(line.what, ModelRequestRecord)]
    (verdict,) = verify_requests(alone)
    assert verdict.outcome == "unknown"
