"""The demo shows what it claims, and claims only what happened."""

from __future__ import annotations

import asyncio
import re

import pytest

from tertulia.cli.demo import RecordingWire, distance
from tertulia.models.wire import AnswerEnd, TextDelta
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings
from tertulia.testing import ScriptedModel, call, say
from tests.cli.running import Ran, Shell
from tests.cli.stored_sessions import home
from tests.deadlines import HANG_S


@pytest.fixture
def ran(shell: Shell) -> Ran:
    return shell.run("demo")


def rows(ran: Ran, name: str, label: str) -> list[str]:
    """What stands beside a name and a label, in order."""
    found = [line.split(maxsplit=2) for line in ran.out.splitlines() if line.startswith("  ")]
    return [row[2] for row in found if row[:2] == [name, label]]


def test_it_works_without_a_key_and_fits_on_a_screen(ran: Ran) -> None:
    assert ran.code == 0
    assert ran.err == ""
    assert len(ran.out.splitlines()) <= 75
    assert max(map(len, ran.out.splitlines())) <= 100
    assert "\x1b" not in ran.out


def test_the_two_conversations_have_their_own_instructions_tools_and_storage(ran: Ran) -> None:
    assert rows(ran, "guide", "told") != rows(ran, "critic", "told")
    assert rows(ran, "guide", "has") == ["tools: update_plan, conv_*, distance · storage: full"]
    assert rows(ran, "critic", "has") == ["tools: distance · storage: headers_only"]


def test_rights_is_told(ran: Ran) -> None:
    assert rows(ran, "critic", "narrowed") == [
        "sandbox: asked danger-full-access, given workspace-write (by the session)"
    ]
    assert rows(ran, "guide", "narrowed") == []


def test_tools_are_called_and_a_tool_that_is_not_offered_is_refused(ran: Ran) -> None:
    assert rows(ran, "guide", "plan") == ["[>] Measure the way · [ ] Find a café"]
    assert rows(ran, "guide", "gets")[0] == "Sol to Prado: 1.3 km"
    assert rows(ran, "critic", "refused")[0].startswith("update_plan: ")


def test_a_task_is_stopped_in_the_middle_and_its_half_answer_kept(ran: Ran) -> None:
    assert len(rows(ran, "guide", "stopped")) == 1
    assert any(row.startswith("Gladly.") for row in rows(ran, "guide", "assistant"))
    assert "nothing went as planned" not in ran.out


def test_a_file_is_written_over_and_brought_back(ran: Ran, shell: Shell) -> None:
    """Issue 26: the demo shows an undo, in a directory of its own; of the user's nothing is recorded."""
    assert rows(ran, "writer", "undone") == ["meeting.txt says again: Sol, at ten"]
    assert not (home(shell) / "checkpoints").exists()
    confined = shell.run("demo", "-s", "read-only")
    assert confined.code == 0
    assert "no undo  this session may write no file" in confined.out


def test_one_conversation_asks_another_and_gets_one_answer_and_it_says_who_answered(ran: Ran) -> None:
    """S004-25: the caller is replaced, the target speaks, the caller goes on."""
    assert rows(ran, "other", "is")[0].startswith("the same script")
    labels = [line.split(maxsplit=2)[:2] for line in ran.out.splitlines() if line.startswith("  ")]
    order = [["guide", "waits"], ["other", "is"], ["other", "says"], ["other", "done"], ["guide", "gets"]]
    places = [labels.index(label, labels.index(["guide", "waits"])) for label in order]
    assert places == sorted(places)
    row = rows(ran, "guide", "gets")[-1]
    assert row.startswith('{"ok":true,"status":"completed"')
    assert rows(ran, "guide", "calls")[-1].startswith("conv_create ")


def test_three_colleagues_work_side_by_side_and_each_says_how_long_it_took(ran: Ran) -> None:
    """Issue 20: real waits; together they take as long as the slowest and not as long as all."""
    team = ("Ana", "Blas", "Celia")
    lines = ran.out.splitlines()
    nexts = [next(at for at, line in enumerate(lines) if line.split()[:2] == [name, "is"]) for name in team]
    first_answer = min(at for at, line in enumerate(lines) if line.split()[:2] in [[name, "says"] for name in team])
    assert max(nexts) < first_answer
    took = [float(re.fullmatch(r"after ([\d.]+) s", rows(ran, name, "done")[0])[1]) for name in team]
    assert (took[0] >= 0.9, took[1] >= 0.6, took[2] >= 0.3) == (True, True, True)
    match = re.fullmatch(r"([\d.]+) s in all; one after the other they take ([\d.]+) s", rows(ran, "guide", "done")[-1])
    assert match is not None
    assert float(match[2]) == pytest.approx(sum(took), abs=0.2)
    assert rows(ran, "guide", "says")[-1].startswith("Walk down at six")


def test_what_one_was_told_the_other_was_never_sent(ran: Ran) -> None:
    assert rows(ran, "guide", "proof") == ["what its model was sent last has “Alba” in it"]
    assert rows(ran, "critic", "proof") == ["what its model was sent last does not have “Alba” in it"]
    assert all("Alba" not in row for row in rows(ran, "critic", "user") + rows(ran, "critic", "assistant"))


def test_the_global_flags_hold(shell: Shell) -> None:
    ran = shell.run("demo", "-s", "read-only", "--storage", "none", "-m", "nobody/knows")
    assert ran.code == 0
    assert rows(ran, "critic", "narrowed")[0].startswith("sandbox: asked danger-full-access, given read-only")
    assert rows(ran, "guide", "has")[0].endswith("storage: none")


def test_the_tool_is_an_ordinary_function() -> None:
    assert distance("here", "there") == "here to there: 1.3 km"


async def test_the_wiretap_changes_nothing_and_remembers_the_last_request_of_each() -> None:
    model = RecordingWire(ScriptedModel(["one two", "three"]), 0)
    async with Session.start(Settings(model=model)) as session, asyncio.timeout(HANG_S):
        root, other = session.root, await session.open(base_instructions="Be other.")
        assert (await root.message("my secret")).text == "one two"
        assert (await other.message("hello")).text == "three"
    assert "my secret" in model.sent[root.id]
    assert "my secret" not in model.sent[other.id]
    assert model.sent[other.id].startswith("Be other.")


async def test_conversations_that_the_script_opens_are_a_real_models_where_there_is_one() -> None:
    opening = {"user_instruction": "What is coffee?"}
    script = [say("", call("conv_create", opening)), "never asked", "done"]
    model = RecordingWire(ScriptedModel(script), 0, "scripted/tour")
    assert model.colleague.startswith("scripted/tour, a real")
    async with Session.start(Settings(model=model)) as session, asyncio.timeout(HANG_S):
        await session.root.message("go")
        assert [conversation.info.model for conversation in session.conversations()][1] == "scripted/tour"


async def test_the_wiretap_streams_what_the_inner_wire_streams() -> None:
    model = ScriptedModel(["one two", "one two"])
    async with Session.start(Settings(model=model)) as session, asyncio.timeout(HANG_S):
        await session.root.message("hello")
    pieces = [piece async for piece in RecordingWire(model, 0).stream(model.last_request.request)]
    assert [piece.text for piece in pieces if isinstance(piece, TextDelta)] == ["one ", "two"]
    assert isinstance(pieces[-1], AnswerEnd)


def test_a_reader_that_leaves_in_the_middle_ends_it_quietly(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("tertulia.cli.demo.DemoView.show", gone)
    monkeypatch.setattr("tertulia.cli.main._discard_output", lambda: None)
    ran = shell.run("demo")
    assert (ran.code, ran.err) == (1, "")
