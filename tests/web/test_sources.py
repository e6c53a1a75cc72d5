"""Rules for the sources of the page: no markup or code made from text, nothing from elsewhere, small files."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from tertulia.server.http.page_files import PageFiles
from tertulia.server.http.page_sources import script_as_sent
from tests.web.node import WEB

OWN = sorted(
    path for path in WEB.rglob("*") if path.suffix in {".js", ".html", ".css"} and path.parent.name != "vendor"
)
SHIPPED = sorted(path for path in WEB.rglob("*") if path.suffix in {".js", ".html", ".css", ".svg"})
MARKUP = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|localStorage")
ADDRESS = re.compile(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", re.IGNORECASE)
INLINE = re.compile(r"""\sstyle=["']|\son[a-z]+=["']""")
BUDGET = 80_000
"""Bytes of all that a browser loads for the first screen, as they travel."""


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.relative_to(WEB).as_posix())
def test_a_source_of_the_page_makes_no_markup_from_text_and_names_no_other_place(path: Path) -> None:
    """D14: what a model writes can only ever be text."""
    text = path.read_text(encoding="utf-8")
    # The frame parses what an agent made, in a document of its own that can do nothing.
    assert path.name == "frame.html" or not MARKUP.search(text)
    assert not ADDRESS.search(text)
    assert path.name == "frame.html" or not INLINE.search(text)
    assert len(text.splitlines()) <= 400


def test_the_page_is_small() -> None:
    """Issue 23: the browser says of the rest that it is not wanted yet (`test_page`)."""
    files = PageFiles()
    first = re.findall("<(.+?)>", files.file("/").headers["link"])
    sent = [files.file(path) for path in ["/", "/icon.svg", *first]]
    assert sum(len(file.packed) for file in sent) <= BUDGET
    # A browser asks for an icon again whenever the page changes its address: at each step of a replay.
    assert b'rel="icon" href="data:image/svg+xml,%3Csvg' in files.file("/").body
    assert all(gzip.decompress(file.packed) == file.body for file in sent)


def test_what_is_left_out_of_a_script_that_is_sent_is_a_comment() -> None:
    for path in SHIPPED:
        if path.suffix == ".js" and path.parent.name != "vendor":
            source = path.read_bytes()
            sent = script_as_sent(path.name, source).decode()
            # Comments as they are found where they may stand anywhere, also within a line.
            bare = re.sub(
                r"[ \t]*/\*\*.*?\*/|^[ \t]*// [^\n]*$|\s", "", source.decode(), flags=re.DOTALL | re.MULTILINE
            )
            assert re.sub(r"[ \t]*/\*\*.*?\*/|\s", "", sent) == bare, path


def test_every_module_is_reached_from_the_page() -> None:
    reached, waiting = set[Path](), [WEB / "app.js"]
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            sent = script_as_sent(module.relative_to(WEB).as_posix(), module.read_bytes())
            names = re.findall(r"""(?:from\s*|import\s*\(?)["'](\.[^"']+)["']""", sent.decode())
            waiting += [(module.parent / name).resolve() for name in names]
    assert {path for path in SHIPPED if path.suffix == ".js"} == reached
