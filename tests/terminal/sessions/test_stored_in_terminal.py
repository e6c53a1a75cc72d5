"""Stored sessions from within the terminal: one is chosen, copied, replayed or watched in the same screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tertulia import Session
from tertulia.rollout.sqlite.session_index import list_sessions
from tertulia.session.settings.settings import LoadedSettings, Settings, current_environment
from tertulia.terminal.app import TerminalApp
from tertulia.terminal.device.log_file import ScreenLog
from tertulia.terminal.sessions.recording import Recording
from tertulia.terminal.start import _open_session
from tertulia.testing import ScriptedModel
from tests.terminal.screen import enter, screen_text, until, until_shown
from tests.terminal.sessions.made_sessions import DELEGATION, store_session

Terminal = Callable[..., TerminalApp]


@pytest.fixture
def terminal(home: Path, work: Path) -> Iterator[Terminal]:
    """Makes applications as `tertulia` starts them, with a model that says one thing."""

    def load(session_id: str | None) -> LoadedSettings:
        settings = Settings(model=ScriptedModel(["Here."], repeat=True), cwd=str(work))
        return LoadedSettings(settings, {}, [], current_environment())

    def make(resumed: str | None = None) -> TerminalApp:
        log = logs.enter_context(ScreenLog())
        app = TerminalApp(lambda: _open_session(load, resumed, None, False, app, log))
        return app

    with ExitStack() as logs:
        yield make


async def to_the_picker(app: TerminalApp, pilot: Pilot[Any]) -> None:
    await until(lambda: app.scene.seen is not None and app.scene.home is not None)
    await pilot.press("f2")
    await until_shown(app, "2 stored sessions")
    await until_shown(app, "about the basket")
    await pilot.press("G")
    await pilot.pause()


async def left_for(app: TerminalApp) -> str:
    await until(lambda: app.next_session is not None and not app.is_running, "no other session was opened")
    assert app.next_session is not None
    return app.next_session


def texts(home: Path, session_id: str) -> str:
    recording = Recording.open(home, session_id)
    board = recording.board(len(recording.steps) - 1)
    assert board.root_id is not None
    return " ".join(getattr(cell, "text", "") for cell in board.conversations[board.root_id].cells)


async def test_a_copy_of_another_session_opens_in_the_place_of_this_one(
    home: Path, work: Path, terminal: Terminal
) -> None:
    """UI.md 4.6: `f` in the picker; the original stays as it is."""
    original = await store_session(work, "Good morning.", messages=("about the basket",))
    app = terminal()
    async with app.run_test(size=(80, 24)) as pilot:
        await to_the_picker(app, pilot)
        await pilot.press("f")
        copy = await left_for(app)
    assert copy not in (original, app.scene.board.session_id)
    assert "about the basket" in texts(home, copy)
    assert {entry.id for entry in list_sessions(home)} >= {original, copy}
    again = terminal(copy)
    async with again.run_test(size=(80, 24)) as pilot:
        await until_shown(again, "Good morning.")


async def test_a_moment_of_another_session_opens_as_a_copy_that_ends_there(
    home: Path, work: Path, terminal: Terminal
) -> None:
    """UI.md 4.6: `r`, then `f` in the replay; of the conversation that is seen there."""
    await store_session(work, *DELEGATION, "And more.", messages=("about the basket", "later"))
    app = terminal()
    async with app.run_test(size=(100, 30)) as pilot:
        await to_the_picker(app, pilot)
        await pilot.press("r")
        await until_shown(app, "And more.")
        await pilot.press("shift+left")
        await pilot.pause()
        await until(lambda: "And more." not in screen_text(app))
        await pilot.press("f")
        copy = await left_for(app)
    assert "And more." not in texts(home, copy)
    assert "about the basket" in texts(home, copy)


async def test_watching_and_replaying_leave_the_session_that_is_seen(
    home: Path, work: Path, terminal: Terminal
) -> None:
    await store_session(work, "Good morning.", messages=("about the basket",))
    app = terminal()
    async with app.run_test(size=(80, 24)) as pilot:
        for key in "rw":
            await to_the_picker(app, pilot)
            await pilot.press(key)
            await until_shown(app, "Good morning.")
            await pilot.press("escape")
            await until(lambda: "Good morning." not in screen_text(app))
        assert app.next_session is None


async def test_a_name_that_fits_no_session_leaves_this_one_as_it_is(work: Path, terminal: Terminal) -> None:
    """`/resume` and `/replay` look before they leave."""
    stored = await store_session(work, "Good morning.", messages=("about the basket",))
    app = terminal()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(lambda: app.scene.seen is not None and app.scene.home is not None)
        for command in ("/resume zzzz", "/replay zzzz"):
            await enter(app, pilot, command)
            await until_shown(app, "no stored session begins with 'zzzz'")
            app.scene.say("")
            await pilot.pause()
        await enter(app, pilot, f"/resume {app.scene.board.session_id}")
        await until_shown(app, "this is the session that you see")
        assert app.is_running
        await enter(app, pilot, f"/resume {stored[:8]}")
        assert await left_for(app) == stored


async def test_a_session_that_another_process_has_is_not_resumed_but_watched(
    home: Path, work: Path, terminal: Terminal
) -> None:
    settings = Settings(model=ScriptedModel(["Good morning.", "And more."]), cwd=str(work))
    async with Session.start(settings) as session:
        await session.root.message("about the basket")
        app = terminal()
        async with app.run_test(size=(80, 24)) as pilot:
            await to_the_picker(app, pilot)
            await until_shown(app, "in use")
            await pilot.press("enter")
            await until_shown(app, "another process has it: w watches it, f goes on in a copy")
            assert app.is_running
            await pilot.press("w")
            await until_shown(app, "Good morning.")
            await session.root.message("go on")
            await until_shown(app, "And more.")
