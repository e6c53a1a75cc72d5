"""Whole screens as text and styles, in every size and every kind of colours.

`python -m tests.terminal.goldens` writes them anew.
"""

from __future__ import annotations

import itertools

import pytest

from tertulia.terminal.looks.themes import use_theme
from tertulia.testing import FakeClock
from tests.terminal.played_port import NOW, STORY, PlayedPort, answered, played, played_app, wrote
from tests.terminal.played_screens import FORM, GRANTS, PATCH_QUESTION, played_picker, played_replay
from tests.terminal.screen import SIZES, assert_golden, enter, until, until_shown

LOOKS = ["tertulia-dark", "tertulia-light", "no-colour"]


@pytest.mark.slow
@pytest.mark.parametrize(("size", "look"), [*itertools.product(SIZES, LOOKS)])
async def test_screens_are_the_golden_ones(size: tuple[int, int], look: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if look == "no-colour":
        monkeypatch.setenv("NO_COLOR", "1")
    port = PlayedPort(played(*STORY))
    app = played_app(port)
    name = f"{size[0]}x{size[1]}-{look}"
    # The clock stands still after this key: the panel never takes the focus by itself, however slow the machine is.
    app.scene.panes.approvals.key_typed()
    async with app.run_test(size=size) as pilot:
        if look != "no-colour":
            use_theme(app, look)
        await until_shown(app, "asks to run a command")
        await until(lambda: port.called("mcp/status"))
        await pilot.pause()
        assert_golden(app, f"main-{name}")
        await pilot.press("ctrl+g")
        await until_shown(app, "── tester ──")
        assert_golden(app, f"weave-{name}")
        await pilot.press("ctrl+g", "ctrl+r")
        await until_shown(app, "root may")
        await pilot.pause()
        assert_golden(app, f"side-{name}")
        await pilot.press("f1")
        await until_shown(app, "Keys that hold everywhere")
        await pilot.pause()
        assert_golden(app, f"help-{name}")


@pytest.mark.slow
@pytest.mark.parametrize(("size", "look"), list(zip(SIZES, LOOKS, strict=True)))
async def test_screens_over_a_session_are_the_golden_ones(
    size: tuple[int, int], look: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UI.md 6: a form, a whole patch, grants, the picker, a replay and its prompt; each size and each look once."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    if look == "no-colour":
        monkeypatch.setenv("NO_COLOR", "1")
    story = played(*STORY, FORM, PATCH_QUESTION)
    port = PlayedPort(story, {"approval/grants": GRANTS})
    app = played_app(port)
    clock = app.scene.clock
    assert isinstance(clock, FakeClock)
    name = f"{size[0]}x{size[1]}-{look}"

    async def shows(text: str, golden: str) -> None:
        await until_shown(app, text)
        await pilot.pause()
        assert_golden(app, f"{golden}-{name}")

    # The clock stands still after this key: the panel never takes the focus by itself, however slow the machine is.
    app.scene.panes.approvals.key_typed()
    async with app.run_test(size=size) as pilot:
        if look != "no-colour":
            use_theme(app, look)
        await until_shown(app, "asks to run a command")
        await until(lambda: port.called("mcp/status"))
        await pilot.press("f6", "tab")
        await shows("Which ticket is this for?", "form")
        await pilot.press("tab")
        clock.advance(1)
        await pilot.press("d")
        await until_shown(app, "rows 1–14 of 14")
        await pilot.press("n")
        await shows("file 1 of 2: app.py", "patch")
        await pilot.press("escape", "escape")
        await enter(app, pilot, "/approvals")
        await shows("2 grants", "grants")
        await pilot.press("escape")
        app.push_screen(played_picker(FakeClock(NOW)))
        await shows("$0.42", "picker")
        await pilot.press("escape")
        app.push_screen(played_replay(story))
        await shows("approval request", "replay")
        await pilot.press("p")
        await shows("byte for byte what was sent", "prompt")


async def test_a_thousand_cells_are_not_a_thousand_widgets() -> None:
    steps = [
        step
        for number in range(300)
        for step in (*wrote("root", "Go on.", f"m{number}"), *answered("root", "Yes.", f"m{number}"))
    ]
    app = played_app(PlayedPort(played(*STORY[:2], *steps)))
    async with app.run_test(size=(100, 30)) as pilot:
        await until(lambda: app.scene.board.root_id and len(app.scene.board.conversations["root"].cells) == 900)
        await until_shown(app, "Yes.")
        await pilot.pause()
        assert len(list(app.screen.walk_children())) < 40
