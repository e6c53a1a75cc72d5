"""The application with a real session behind it."""

from __future__ import annotations

import subprocess
import sys

from tertulia.errors import NoModelError
from tertulia.session.settings.settings import current_environment
from tests.terminal.conftest import MakeApp
from tests.terminal.screen import screen_text, until, until_shown


async def test_a_message_is_answered_on_the_screen(make_app: MakeApp) -> None:
    app = make_app("Good morning, Ada.")
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press(*"hello", "enter")
        await until_shown(app, "Good morning, Ada.")
        assert "▌ hello" in screen_text(app)


async def test_a_copy_that_begins_in_a_replay_of_this_session_is_opened_in_it(make_app: MakeApp) -> None:
    app = make_app("One.", "Two.", storage_policy="full")
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press(*"first", "enter")
        await until_shown(app, "One.")
        await pilot.press(*"second", "enter")
        await until_shown(app, "Two.")
        app.scene.home = current_environment().home
        await pilot.press(*"/replay", "enter")
        await until_shown(app, "task complete")
        await pilot.press("shift+left", "f")
        await until_shown(app, "a copy of root up to there")
        await until(lambda: len(app.scene.board.conversations) == 2)
        await until(lambda: app.scene.seen not in (None, app.scene.board.root_id))


async def test_keys_go_to_the_composer_again_after_a_terminal_without_room(make_app: MakeApp) -> None:
    app = make_app("Good morning.")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(lambda: app.scene.board.root_id is not None)
        for size in ((1, 1), (10, 3)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            await pilot.resize_terminal(80, 24)
            await until(lambda: app.focused is not None)
        await pilot.press(*"hello", "enter")
        await until_shown(app, "Good morning.")


async def test_leaving_closes_the_session(make_app: MakeApp) -> None:
    app = make_app("Good morning.")
    async with app.run_test(size=(100, 30)) as pilot:
        await until(lambda: app.scene.board.root_id is not None)
        port = app.actions.port
        await pilot.press("ctrl+c", "ctrl+c")
        # The end of the block stops what still runs, also the closing.
        await until(lambda: app.return_code is not None)
    assert port is not None
    assert port.session.closed
    assert app.return_code == 0


async def test_why_a_session_does_not_start_is_told_to_the_program(make_app: MakeApp) -> None:
    app = make_app(model=None)
    async with app.run_test():
        await until(lambda: app.failure is not None)
    assert isinstance(app.failure, NoModelError)
    assert app.return_code == 1


def test_the_first_frame_needs_nothing_of_the_session() -> None:
    program = "import sys, tertulia.terminal.start; print(*sorted(m for m in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    allowed = {"errors", "events", "lazy_pattern", "policy", "protocol", "terminal", "version", "view"}
    ours = {name.split(".")[1] for name in loaded if name.startswith("tertulia.")}
    assert ours <= allowed
    assert not {"aiohttp", "sqlite3", "click", "yaml"} & set(loaded)


async def test_a_terminal_that_becomes_narrow_shows_the_rail_at_once(make_app: MakeApp) -> None:
    app = make_app("Good morning.")
    async with app.run_test(size=(150, 40)) as pilot:
        await until_shown(app, "Conversations 1")
        await pilot.resize_terminal(80, 24)
        await until(lambda: "Conversations" not in screen_text(app))
        await pilot.resize_terminal(150, 40)
        await until_shown(app, "Conversations 1")


async def test_a_message_that_is_sent_brings_the_end_into_view(make_app: MakeApp) -> None:
    app = make_app("\n".join(f"- line {number}" for number in range(60)), "The second answer.")
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press(*"hello", "enter")
        await until_shown(app, "line 59")
        transcript = app.scene.panes.transcript
        transcript.reader.go_first()
        transcript.changed()
        await until_shown(app, "line 1")
        await pilot.press(*"again", "enter")
        await until_shown(app, "The second answer.")
