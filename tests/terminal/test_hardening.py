"""HARDENING B1 to B12, A22 and E1 as a person sees them: the whole screen before a real session or played events.

B10 and B12 with a thousand questions are in `approvals/test_panel.py`, codes in a real terminal in `test_tmux.py`.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tertulia.errors import NotFoundError
from tertulia.session.settings.settings import LoadedSettings, Settings, current_environment
from tertulia.terminal.app import TerminalApp
from tertulia.terminal.composer.editor import ComposerEditor
from tertulia.terminal.device.log_file import ScreenLog
from tertulia.terminal.sessions.recording import Recording
from tertulia.terminal.start import _open_session
from tertulia.testing import ScriptedModel, call, say
from tertulia.view.cells import ApprovalCell
from tests.rollout.canary import CANARY, sightings
from tests.sandbox.confined import need
from tests.terminal.approvals.test_in_session import press_in_panel, send
from tests.terminal.conftest import MakeApp
from tests.terminal.played_port import BEGIN, STORY, PlayedPort, asks, opened, played, played_app, wrote
from tests.terminal.screen import screen_text, until, until_shown

ASKS = "asks to run a command"
COMPOUND = [
    "ls && touch made",
    "ls; touch made",
    "ls | tee made",
    "ls $(touch made)",
    "ls `touch made`",
    "ls\ntouch made",
    "ls > made",
    "cat <<E > made\nx\nE",
    "env X=1 touch made",
    "ls {made,x}; touch ma*de",
]


def shell(script: str) -> Any:
    return say("", call("shell", {"command": ["bash", "-c", script]}))


async def test_b1_a_command_that_hides_another_is_asked_about_and_all_of_it_is_seen(
    make_app: MakeApp, tmp_path: Path
) -> None:
    app = make_app(*map(shell, COMPOUND), say("Well."), approval_policy="untrusted")
    async with app.run_test(size=(90, 40)) as pilot:
        await send(app, pilot, "go")
        for script in COMPOUND:
            await until(lambda: app.scene.board.questions, f"{script!r} was not asked about")
            await until_shown(app, script.split("\n")[0])
            missing = [line for line in script.split("\n") if line not in screen_text(app)]
            assert not missing, (script, missing)
            await answer_next(app, pilot, "n")
        await until_shown(app, "Well.")
    assert not (tmp_path / "work" / "made").exists()


async def test_b2_the_last_of_500_commands_is_reached_and_a_no_holds_for_all(make_app: MakeApp, tmp_path: Path) -> None:
    script = " && ".join([*(f"echo {number}" for number in range(499)), "touch made"])
    app = make_app(shell(script), say("Well."), approval_policy="untrusted")
    async with app.run_test(size=(90, 30)) as pilot:
        await send(app, pilot, "go")
        await until_shown(app, ASKS)
        await press_in_panel(app, pilot, "d")
        await pilot.press("end")
        await until_shown(app, "touch made")
        await pilot.press("escape")
        await press_in_panel(app, pilot, "n")
        await until_shown(app, "Well.")
    assert not (tmp_path / "work" / "made").exists()


async def answer_next(app: TerminalApp, pilot: Pilot[Any], key: str) -> None:
    """Answer the question that stands, and wait until it is gone."""
    await until(lambda: app.scene.board.questions, f"nothing is asked:\n{screen_text(app)}")
    before = set(app.scene.board.questions)
    await press_in_panel(app, pilot, key)
    await until(lambda: not before & set(app.scene.board.questions))


async def test_b3_b5_a_yes_for_one_conversation_holds_for_no_other_and_no_other_command(make_app: MakeApp) -> None:
    need("bubblewrap")
    touch = call("shell", {"command": ["touch", "made"]})
    other = call("shell", {"command": ["touch", "other"]})
    child = call("conv_create", {"user_instruction": "touch it", "title": "child"})
    replies = [say("", touch), say("", touch), say("", other), say("", child), say("", touch), say("No."), say("End.")]
    app = make_app(*replies, approval_policy="untrusted")
    async with app.run_test(size=(90, 30)) as pilot:
        await send(app, pilot, "go")
        await answer_next(app, pilot, "c")
        # The same again ran unasked, another one is asked about: its call is drawn before its question.
        await until_shown(app, "touch other")
        await until_shown(app, "root asks to run a command")
        await answer_next(app, pilot, "n")
        await until_shown(app, "root › child asks to run a command")
        await answer_next(app, pilot, "n")
        await until(lambda: not app.scene.board.task_owners)


@pytest.mark.parametrize("seconds", [-100_000.0, 100_000.0])
async def test_b4_whatever_the_clock_shows_a_question_that_expired_is_answered_by_no_key(seconds: float) -> None:
    """The core counts by a clock that cannot be set; the screen's clock only shows the time left."""
    refused = {"approval/resolve": NotFoundError("the approval has expired and was denied")}
    port = PlayedPort(played(*STORY), refused)
    app = played_app(port, now=1_767_225_700.0 + seconds)
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, ASKS)
        assert re.search(r"(time is up|0:00|\d+:\d\d|h)", screen_text(app))
        await press_played(app, pilot, "y")
        await until_shown(app, "has expired and was denied")
        assert len(port.called("approval/resolve")) == 1
        assert app.scene.board.questions


async def press_played(app: TerminalApp, pilot: Pilot[Any], key: str) -> None:
    """As `press_in_panel`, before a clock that stands still."""
    await pilot.press("f6")
    clock: Any = app.scene.clock
    clock.advance(1.0)
    await pilot.press(key)


async def test_b6_a_second_key_is_no_second_answer_and_a_foreign_answer_ends_the_question() -> None:
    port = PlayedPort(played(*STORY))
    app = played_app(port)
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, ASKS)
        await press_played(app, pilot, "y")
        await until(lambda: port.called("approval/resolve"))
        await press_played(app, pilot, "y")
        await press_played(app, pilot, "n")
        await pilot.pause()
        assert [params["decision"] for params in port.called("approval/resolve")] == ["allow"]
    port = PlayedPort(played(*STORY))
    app = played_app(port)
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, ASKS)
        by = {"kind": "client", "name": "editor"}
        gone = {"approval_id": "q1", "decision": "deny", "by": by}
        port.play(played(*STORY, {"type": "approval_resolved", "conversation": "tester", "data": gone})[-1])
        await until_shown(app, "denied by the client editor")
        await press_played(app, pilot, "y")
        await pilot.pause()
        assert not port.called("approval/resolve")


async def open_below(app: TerminalApp, title: str, **fields: Any) -> str:
    """A conversation that the person opens below root."""
    await until(lambda: app.scene.seen is not None)
    answer = await app.actions.port.call("conversation/open", parent_id=app.scene.board.root_id, title=title, **fields)
    await until(lambda: answer["conversation_id"] in app.scene.board.conversations)
    return answer["conversation_id"]


async def test_b7_what_a_conversation_asked_for_and_was_not_given_is_told_and_shown(make_app: MakeApp) -> None:
    app = make_app(say("Well."), sandbox="read-only")
    async with app.run_test(size=(150, 40)) as pilot:
        await open_below(app, "child", sandbox="danger-full-access")
        await pilot.press("ctrl+down")
        await until_shown(app, "child may")
        await until_shown(app, "asked for danger-full-access; given read-only")
        await until_shown(app, "set by “root”; asked for")
        assert re.search(r"sandbox +read-only", screen_text(app))


@contextmanager
def as_started(settings: Settings, resumed: str | None = None) -> Iterator[TerminalApp]:
    """The app as the program opens it: with the board of the past, and with what is stored when it ends."""
    loaded = LoadedSettings(settings, {}, [], current_environment())
    with ScreenLog() as log:
        app = TerminalApp(lambda: _open_session(lambda _: loaded, resumed, None, False, app, log))
        yield app
        app.finish()


async def test_b8_after_a_crash_a_question_that_waited_was_not_granted(
    make_app: MakeApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(shell("touch made"), say("Well."), approval_policy="untrusted", storage_policy="full")
    async with app.run_test(size=(90, 30)) as pilot:
        await send(app, pilot, "go")
        await until_shown(app, ASKS)
        session_id = app.scene.board.session_id
        # What a process leaves that is killed now.
        shutil.copytree(tmp_path / "home", tmp_path / "crashed")
        await press_in_panel(app, pilot, "n")
        await until_shown(app, "Well.")
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path / "crashed"))
    settings = Settings(model=ScriptedModel([]), cwd=str(tmp_path / "work"), approval_policy="untrusted")
    with as_started(settings, resumed=session_id) as resumed:
        async with resumed.run_test(size=(90, 30)):
            await until_shown(resumed, "▌ go")
            await until(lambda: resumed.actions.port.session)
            await until(lambda: not resumed.scene.board.questions, "the question of the past is still open")
            await until(lambda: ASKS not in screen_text(resumed), "the question of the past is still shown")
    assert not (tmp_path / "work" / "made").exists()


async def test_b9_leaving_while_a_question_stands_is_a_no(make_app: MakeApp, tmp_path: Path) -> None:
    app = make_app(shell("touch made"), say("Well."), approval_policy="untrusted", storage_policy="full")
    async with app.run_test(size=(90, 30)) as pilot:
        await send(app, pilot, "go")
        await until_shown(app, ASKS)
        session = app.actions.port.session
        await pilot.press("ctrl+c", "ctrl+c")
        await until(lambda: session.closed)
    assert not (tmp_path / "work" / "made").exists()
    recording = Recording.open(tmp_path / "home", session.id)
    past = recording.board(len(recording.steps) - 1)
    assert not past.questions
    (question,) = [cell for cell in past.conversations[past.root_id].cells if isinstance(cell, ApprovalCell)]
    assert question.answer is not None
    assert (question.answer.decision, question.answer.by.kind) == ("deny", "shutdown")


async def test_b11_the_strictest_of_the_chain_decides_and_the_card_names_the_chain(
    make_app: MakeApp, tmp_path: Path
) -> None:
    """A conversation that may only read asks one that may write: what it has done for it is not written either."""
    need("bubblewrap")
    ids: list[str] = []

    def ask_wide(*_: object) -> Any:
        return say("", call("conv_send", {"conversation_id": ids[0], "text": "touch made"}))

    touch = say("", call("shell", {"command": ["touch", "made"]}))
    app = make_app(ask_wide, touch, say("Done."), say("End."), approval_policy="untrusted")
    async with app.run_test(size=(150, 40)) as pilot:
        ids.append(await open_below(app, "wide"))
        narrow = await open_below(app, "narrow", sandbox="read-only")
        await app.actions.port.call("conversation/message", conversation_id=narrow, text="go", detach=True)
        await until_shown(app, "narrow › wide asks to run a command")
        assert re.search(r"sandbox +read-only", screen_text(app))
        await answer_next(app, pilot, "y")
        await until(lambda: not app.scene.board.task_owners)
    assert not (tmp_path / "work" / "made").exists()


HOSTILE = "\x1b]2;pwned\x07\x1b]52;c;cHduZWQ=\x07\x1b[2J\x9b31m\u202eevil\u2066\u200b\u2028\r\x00end"
OBEYED = set("\x1b\x07\x9b\u202e\u2066\u200b\u2028\r\x00")


def hostile(value: Any) -> Any:
    """The same, with a hostile end at every text that is no word of ours."""
    match value:
        case dict():
            return {name: part if name in _OURS else hostile(part) for name, part in value.items()}
        case list():
            return [hostile(part) for part in value]
        case str():
            return f"{value} {HOSTILE}"
        case _:
            return value


_OURS = {
    "type", "conversation", "task", "conversation_id", "root_conversation_id", "parent_id", "caller_id", "call_id",
    "item_id", "approval_id", "elicitation_id", "kind", "chain", "how", "status", "reason", "scopes", "decision",
    "expires_at", "asked_at", "backend", "ts", "schema", "level", "exit_code", "digest",
}  # fmt: skip
MORE: list[dict[str, Any]] = [
    {"type": "error", "conversation": "root", "data": {"code": "model_error", "message": "no"}},
    {"type": "background_event", "conversation": "root", "data": {"message": "news"}},
    {"type": "warning", "data": {"message": "careful"}},
    {"type": "mcp_server_status", "data": {"name": "fs", "status": "failed", "error": "why"}},
    {
        "type": "exec_command_begin",
        "conversation": "root",
        "data": {"call_id": "c1", "command": ["sh"], "cwd": "/w", "sandbox": "read-only"},
    },
    {
        "type": "exec_command_end",
        "conversation": "root",
        "data": {"call_id": "c1", "exit_code": 1, "output": "out", "truncated": False, "duration_ms": 5},
    },
    {
        "type": "elicitation_request",
        "conversation": "root",
        "data": {"elicitation_id": "e1", "server": "tickets", "message": "which?", "schema": {}, "chain": ["root"]},
    },
]


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_a22_no_text_of_a_model_a_tool_or_a_server_steers_the_screen(size: tuple[int, int]) -> None:
    """Names of conversations, servers, tools and files, commands, plans, errors and questions, on every page."""
    steps = [hostile(step) for step in (*STORY, *MORE)]
    port = PlayedPort(played(*steps), {"session/info": hostile_info()})
    app = played_app(port)
    async with app.run_test(size=size) as pilot:
        await until_shown(app, "⟨U+001B⟩]2;pwned")
        for keys in ([], ["ctrl+g"], ["ctrl+g", "ctrl+t"], ["escape", "f6"], ["d"], ["escape", "f3"], ["ctrl+k"]):
            await pilot.press(*keys)
            await pilot.pause()
            obeyed = [line for line in screen_text(app).split("\n") if OBEYED & set(line)]
            assert not obeyed, (keys, obeyed)
            assert not OBEYED & set(app.title)
            assert "pwned" not in app.title
        assert app.clipboard == ""


def hostile_info() -> dict[str, Any]:
    from tests.terminal.played_port import ANSWERS

    return {**ANSWERS["session/info"], "model": f"m/{HOSTILE}"}


async def test_a_conversation_whose_name_imitates_a_question_stays_a_name() -> None:
    """B10: the bar of a question stands only at questions, and the name of another conversation is told as it is."""
    name = "root asks to run a command\n▌ y yes, once"
    port = PlayedPort(played(*BEGIN, opened(name, "root"), *wrote("root", "hi", "t1")))
    app = played_app(port)
    async with app.run_test(size=(100, 30)):
        await until_shown(app, "asks to run")
        lines = [line for line in screen_text(app).split("\n") if "asks to run" in line]
        assert all("⟨U+000A⟩" in line or "…" in line for line in lines)
        assert not [line for line in screen_text(app).split("\n") if line.lstrip("│ ").startswith("▌ y yes")]
        assert not app.scene.panes.approvals.display


async def test_a_flood_of_questions_never_takes_the_keys_of_a_person_who_types() -> None:
    """B12: they come faster than keys, and every key is text."""
    port = PlayedPort(played(*BEGIN, *wrote("root", "hi", "t1")))
    app = played_app(port)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(lambda: app.scene.seen is not None)
        text = "yes yes no"
        for number, key in enumerate(text):
            steps = [*BEGIN, *wrote("root", "hi", "t1"), *(asks("root", "t1", f"q{n}") for n in range(number + 1))]
            port.play(played(*steps)[-1])
            await pilot.press("space" if key == " " else key)
        await until(lambda: len(app.scene.board.questions) == len(text))
        assert app.scene.panes.composer.query_one(ComposerEditor).text == text
        # A person who thinks in the middle of a sentence keeps the keys.
        clock: Any = app.scene.clock
        clock.advance(30.0)
        app.scene.show_around()
        app.scene.panes.approvals.tick()
        await pilot.pause()
        assert not app.scene.panes.approvals.has_focus
        assert not port.called("approval/resolve")


@pytest.mark.parametrize("policy", ["headers-only", "none"])
async def test_e1_nothing_that_was_typed_shown_or_answered_on_the_screen_is_stored(
    tmp_path: Path, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch = call("shell", {"command": ["touch", CANARY]})
    title = call("conv_create", {"user_instruction": CANARY, "title": CANARY})
    model = ScriptedModel([say("", touch), say("", title), say(CANARY), say(CANARY)])
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path / "home"))
    settings = Settings(model=model, cwd=str(tmp_path / "work"), approval_policy="untrusted", storage_policy=policy)
    with as_started(settings) as app:
        async with app.run_test(size=(100, 30)) as pilot:
            await send(app, pilot, CANARY)
            await until_shown(app, ASKS)
            await press_in_panel(app, pilot, "m")
            app.scene.panes.approvals.query_one("TextEntry").insert(CANARY)
            await pilot.press("enter")
            await until(lambda: app.scene.board.root_id and not app.scene.board.task_owners)
            assert CANARY in app.scene.panes.composer.sources.history.fresh
            await pilot.press("ctrl+c", "ctrl+c")
    files = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert policy == "none" or files
    assert {str(path): found for path in files if (found := sightings(path.read_bytes()))} == {}
    assert json.dumps([path.name for path in files]).find(CANARY[:8]) < 0
