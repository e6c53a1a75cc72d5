"""Reading the pages: their programs, their transcripts, their tables, their links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))

_FENCE = re.compile(r"^(```)(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`]+)`")


class Step(msgspec.Struct, frozen=True):
    """One command of a transcript, and what it prints; `…` stands for anything."""

    command: str
    expected: str


def text(name: str) -> str:
    """A page of docs/."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def program(page: Path) -> str:
    """All Python of a page as one program in which every line has the number that it has on the page."""
    lines: list[str] = []
    language = None
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            language = line[3:] if language is None else None
            lines.append("")
        else:
            lines.append(line if language == "python" else "")
    return "\n".join(lines)


def transcript(page: Path) -> list[Step]:
    """All console blocks of a page, in order: `$` begins a command, `>` goes on with it."""
    steps: list[tuple[list[str], list[str]]] = []
    for _, language, body in _FENCE.findall(page.read_text(encoding="utf-8")):
        for line in body.splitlines() if language == "console" else ():
            if line.startswith("$ "):
                steps.append(([line[2:]], []))
            elif line.startswith(">") and not steps[-1][1]:
                steps[-1][0].append(line[2:])
            else:
                steps[-1][1].append(line)
    return [Step("\n".join(command), "".join(f"{line}\n" for line in printed)) for command, printed in steps]


def fits(printed: str, expected: str) -> bool:
    """Whether this is what the page shows."""
    pattern = ".*?".join(map(re.escape, expected.split("…")))
    return re.fullmatch(pattern, printed, re.DOTALL) is not None


def table(page: str, *header: str) -> list[tuple[str, ...]]:
    """The rows of the one table of a page that has this header, without the header."""
    tables = [list(rows) for rows in _tables(text(page)) if rows[0] == header]
    assert len(tables) == 1, f"{page} has {len(tables)} tables with the header {header}"
    return tables[0][2:]


def _tables(page: str) -> Iterator[list[tuple[str, ...]]]:
    for block in re.findall(r"(?:^\|.*\|\n)+", page, re.MULTILINE):
        yield [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in block.splitlines()]


def names(cell: str) -> list[str]:
    """What is set as code in a cell."""
    return _CODE.findall(cell)


def links(page: Path) -> list[str]:
    """The addresses that a page points to, those in code left out."""
    prose = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return _LINK.findall(prose)


def anchors(page: Path) -> set[str]:
    """The places within a page that a link can name, as GitHub makes them."""
    prose = _FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
