"""Draws the screens as pictures: `python -m tests.terminal.pictures build/screens`.

SVG from Textual, and PNG of each where a chromium is installed: people look at them before a change lands.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

from textual.app import App

from tertulia.terminal.looks.themes import use_theme
from tests.terminal.screen import SIZES
from tests.terminal.visited_screens import TOURS
from tests.web.browser import Browser, started_browser, why_not

THEMES = ("tertulia-dark", "tertulia-light")
PICTURE_WIDTH = 1400


async def draw(folder: Path) -> list[Path]:
    """Write the SVGs of all screens."""
    written: list[Path] = []
    for size in SIZES:
        for tour in TOURS:
            async with tour(size) as (pilot, screens):
                async for name in screens:
                    for theme in THEMES:
                        use_theme(pilot.app, theme)
                        await pilot.pause()
                        written.append(_save(pilot.app, folder / f"{name}-{size[0]}x{size[1]}-{theme}.svg"))
    return written


def _save(app: App[Any], path: Path) -> Path:
    # Its fonts would be fetched from a server; those of this machine do.
    picture = re.sub(r"@font-face \{.*?\}", "", app.export_screenshot(title="Tertulia"), flags=re.DOTALL)
    path.write_text(picture, encoding="utf-8")
    return path


async def rasterise(browser: Browser, paths: list[Path]) -> None:
    """Make a PNG of each."""
    async with browser.page() as page:
        for path in paths:
            await page.call("setViewportSize", _window(path))
            await page.open(path.absolute().as_uri())
            await page.screenshot(path.with_suffix(".png"))


def _window(path: Path) -> dict[str, int]:
    """A window in which the picture has no margin."""
    _, _, width, height = map(
        float, path.read_text(encoding="utf-8").partition('viewBox="')[2].partition('"')[0].split()
    )
    return {"width": PICTURE_WIDTH, "height": round(PICTURE_WIDTH * height / width)}


def main(folder: Path) -> str:
    """Draw all of them; returns what was done."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = asyncio.run(draw(folder))
    if (missing := why_not()) is not None:
        return f"{folder}: {len(paths)} SVGs and no PNGs: {missing}"
    with started_browser() as browser:
        asyncio.run(rasterise(browser, paths))
    return f"{folder}: {len(paths)} SVGs and PNGs"


if __name__ == "__main__":
    sys.stdout.write(main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/screens")) + "\n")
