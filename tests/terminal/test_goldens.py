"""Whole screens as text and styles, in every size and every kind of colours.

`python -m tests.terminal.goldens` writes them anew.
"""

from __future__ import annotations

import itertools

import pytest

from tertulia.terminal.looks.themes import use_theme
from tests.terminal.played_port import STORY, PlayedPort, answered, played, played_app, wrote
from tests.terminal.screen import SIZES, Rows, assert_golden_looks, screen_rows, until, until_shown
from tests.terminal.visited_screens import TOURS, Tour

THEMES = ("tertulia-dark", "tertulia-light")


@pytest.mark.slow
@pytest.mark.parametrize(("size", "tour"), [*itertools.product(SIZES, TOURS)])
async def test_every_screen_is_the_golden_one(
    size: tuple[int, int], tour: Tour, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UI.md 6: each screen in each size; dark, light and NO_COLOR have one text and their own styles."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    looks: dict[str, list[Rows]] = {}
    async with tour(size) as (pilot, screens):
        async for name in screens:
            looks[name] = []
            for theme in THEMES:
                use_theme(pilot.app, theme)
                await pilot.pause()
                looks[name].append(screen_rows(pilot.app))
    monkeypatch.setenv("NO_COLOR", "1")
    async with tour(size) as (pilot, screens):
        async for name in screens:
            await pilot.pause()
            looks[name].append(screen_rows(pilot.app))
    for name, rows in looks.items():
        assert_golden_looks(rows, f"{name}-{size[0]}x{size[1]}")


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
