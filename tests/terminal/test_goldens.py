"""Whole screens as text and styles, in every size and every kind of colours.

`python -m tests.terminal.goldens` writes them anew.
"""

from __future__ import annotations

import itertools

import pytest

from tertulia.terminal.looks.themes import use_theme
from tests.terminal.played_port import STORY, PlayedPort, answered, played, played_app, wrote
from tests.terminal.screen import SIZES, assert_golden, until, until_shown

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
