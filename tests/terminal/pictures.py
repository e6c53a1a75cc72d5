"""Draws the screens as pictures: `python -m tests.terminal.pictures build/screens`.

SVG from Textual, and PNG of each where a chromium is installed: people look at them before a change lands.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tertulia.terminal.app import TerminalApp
from tertulia.terminal.looks.themes import use_theme
from tests.terminal.played_port import STORY, PlayedPort, played, played_app
from tests.terminal.screen import SIZES, until_shown

PICTURE_WIDTH = 1400
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


async def draw(folder: Path) -> list[Path]:
    """Write the SVGs of all screens."""
    written: list[Path] = []
    for theme in ("tertulia-dark", "tertulia-light"):
        for size in SIZES:
            app = played_app(PlayedPort(played(*STORY)))
            async with app.run_test(size=size) as pilot:
                use_theme(app, theme)
                await until_shown(app, "asks to run a command")
                for name, keys in (
                    ("main", []),
                    ("weave", ["ctrl+g"]),
                    ("side", ["ctrl+g", "ctrl+r"]),
                    ("help", ["f1"]),
                ):
                    await pilot.press(*keys)
                    await pilot.pause()
                    written.append(_save(app, folder / f"{name}-{size[0]}x{size[1]}-{theme}.svg"))
    return written


def _save(app: TerminalApp, path: Path) -> Path:
    # Its fonts would be fetched from a server; those of this machine do.
    picture = re.sub(r"@font-face \{.*?\}", "", app.export_screenshot(title="Tertulia"), flags=re.DOTALL)
    path.write_text(picture, encoding="utf-8")
    return path


def rasterise(paths: list[Path]) -> str:
    """Make a PNG of each; returns what was done."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        return f"{len(paths)} SVGs; no chromium is installed, so there are no PNGs"
    quiet = ("--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run")
    for path in paths:
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={_window(path)}", *quiet]
        command += [f"--screenshot={path.with_suffix('.png')}", path.absolute().as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    return f"{len(paths)} SVGs and PNGs"


def _window(path: Path) -> str:
    """A window in which the picture has no margin."""
    _, _, width, height = map(
        float, path.read_text(encoding="utf-8").partition('viewBox="')[2].partition('"')[0].split()
    )
    return f"{PICTURE_WIDTH},{round(PICTURE_WIDTH * height / width)}"


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "build/screens")
    target.mkdir(parents=True, exist_ok=True)
    sys.stdout.write(f"{target}: {rasterise(asyncio.run(draw(target)))}\n")
