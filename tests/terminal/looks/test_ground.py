"""Themes with a ground of their own: every part of the screen stands on it."""

from __future__ import annotations

import pytest

from tertulia.terminal.looks.themes import OWN, THEMES, use_theme
from tests.terminal.conftest import MakeApp
from tests.terminal.screen import screen_rows, until_shown


@pytest.mark.parametrize("theme", [name for name in THEMES if name != OWN])
@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_every_part_of_the_screen_has_the_ground_of_the_theme(
    make_app: MakeApp, theme: str, size: tuple[int, int]
) -> None:
    app = make_app("hello")
    async with app.run_test(size=size) as pilot:
        await until_shown(app, "root")
        use_theme(app, theme)
        await pilot.pause()
        ground = app.screen.background_colors[1].rich_color
        bare = {text for row in screen_rows(app) for text, style in row if style.bgcolor is None}
        assert bare == set()
        plain = [style for row in screen_rows(app) for _, style in row if not style.reverse]
        assert sum(style.bgcolor == ground for style in plain) > len(plain) * 0.9
        assert not [style for style in plain if style.color == style.bgcolor and style.color is not None]


async def test_the_terminals_own_colours_are_left_alone(make_app: MakeApp) -> None:
    app = make_app("hello")
    async with app.run_test(size=(80, 24)):
        await until_shown(app, "root")
        grounds = {style.bgcolor for row in screen_rows(app) for _, style in row}
        assert all(ground is None or ground.is_default for ground in grounds)
