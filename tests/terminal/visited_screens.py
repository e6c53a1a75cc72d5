"""Goes from screen to screen of the terminal, with contents that do not change from run to run.

What the golden files and the pictures show is visited here, so that neither can leave a screen out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from textual.pilot import Pilot

from tertulia.terminal.app import TerminalApp
from tertulia.testing import FakeClock
from tests.terminal.played_port import NOW, STORY, PlayedPort, played, played_app
from tests.terminal.played_screens import FORM, GRANTS, PATCH_QUESTION, played_picker, played_replay
from tests.terminal.screen import enter, until, until_shown

Visit = AsyncIterator[str]
Tour = Callable[[tuple[int, int]], AbstractAsyncContextManager[tuple[Pilot[Any], Visit]]]
"""Opens the application in a size; then a step of the iterator shows the next screen and returns its name."""


@asynccontextmanager
async def session_tour(size: tuple[int, int]) -> AsyncIterator[tuple[Pilot[Any], Visit]]:
    """The screens of a session in which a conversation asks."""
    port = PlayedPort(played(*STORY))
    app = _app(port)
    async with app.run_test(size=size) as pilot:
        yield pilot, _session_screens(app, pilot, port)


@asynccontextmanager
async def question_tour(size: tuple[int, int]) -> AsyncIterator[tuple[Pilot[Any], Visit]]:
    """A form, a whole patch and grants; then the screens of stored sessions."""
    port = PlayedPort(played(*STORY, FORM, PATCH_QUESTION), {"approval/grants": GRANTS})
    app = _app(port)
    async with app.run_test(size=size) as pilot:
        yield pilot, _question_screens(app, pilot, port)


TOURS: tuple[Tour, ...] = (session_tour, question_tour)


def _app(port: PlayedPort) -> TerminalApp:
    app = played_app(port)
    # The clock stands still after this key: the panel never takes the focus by itself, however slow the machine is.
    app.scene.panes.approvals.key_typed()
    return app


async def _session_screens(app: TerminalApp, pilot: Pilot[Any], port: PlayedPort) -> Visit:
    await until_shown(app, "asks to run a command")
    await until(lambda: port.called("mcp/status"))
    yield "main"
    await pilot.press("ctrl+g")
    await until_shown(app, "── tester ──")
    yield "weave"
    await pilot.press("ctrl+g", "ctrl+r")
    await until_shown(app, "root may")
    yield "side"
    await pilot.press("f1")
    await until_shown(app, "Keys that hold everywhere")
    yield "help"
    await pilot.press("escape", "ctrl+k")
    await until_shown(app, "Find")
    yield "palette"
    await pilot.press("escape")
    await enter(app, pilot, "/why rm -rf build")
    await until_shown(app, "not known to be safe")
    yield "why"


async def _question_screens(app: TerminalApp, pilot: Pilot[Any], port: PlayedPort) -> Visit:
    clock = app.scene.clock
    assert isinstance(clock, FakeClock)
    await until_shown(app, "asks to run a command")
    await until(lambda: port.called("mcp/status"))
    await pilot.press("f6", "tab")
    await until_shown(app, "Which ticket is this for?")
    yield "form"
    await pilot.press("tab")
    clock.advance(1)
    await pilot.press("d")
    await until_shown(app, "rows 1–14 of 14")
    await pilot.press("n")
    await until_shown(app, "file 1 of 2: app.py")
    yield "patch"
    await pilot.press("escape", "escape")
    await enter(app, pilot, "/approvals")
    await until_shown(app, "2 grants")
    yield "grants"
    await pilot.press("escape")
    app.push_screen(played_picker(FakeClock(NOW)))
    await until_shown(app, "$0.42")
    yield "picker"
    await pilot.press("escape")
    app.push_screen(played_replay(played(*STORY)))
    await until_shown(app, "mcp server status")
    yield "replay"
    await pilot.press("p")
    await until_shown(app, "byte for byte what was sent")
    yield "prompt"
    await pilot.press("equals_sign")
    await until_shown(app, "compared")
    yield "diff"
