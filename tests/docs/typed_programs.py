"""Writes the Python of the pages as programs that type checkers read: `python -m tests.docs.typed_programs FOLDER`.

A page is one coroutine, because its reader may use `await` at the top level; every line keeps its number.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.docs.pages import PAGES, README, ROOT, program


def typed_program(page: Path) -> str:
    """The page's Python inside of one `async def`. The first line of a page is its title and never Python."""
    first, *rest = program(page).splitlines()
    assert not first, f"{page} begins with Python"
    body = [f"    {line}" if line else "" for line in rest]
    return "\n".join(["async def page() -> None:", *body, "    ...", ""])


def write_programs(folder: Path) -> list[Path]:
    """One file for each page that has Python, and nothing else in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = [README, *PAGES, *sorted((ROOT / "docs/extending").glob("*.md"))]
    programs = {_name(page): typed_program(page) for page in pages if "```python" in page.read_text(encoding="utf-8")}
    for old in folder.glob("*.py"):
        if old.name not in programs:
            old.unlink()
    for name, text in programs.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return [folder / name for name in programs]


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix().replace("/", "_").replace("-", "_").replace(".md", ".py")


if __name__ == "__main__":
    write_programs(Path(sys.argv[1]))
