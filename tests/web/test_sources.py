"""Rules for the sources of the page: no markup or code made from text, nothing from elsewhere, small files."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from tertulia.server.http.page_files import PageFiles, without_comments
from tests.web.node import WEB

OWN = sorted(
    path for path in WEB.rglob("*") if path.suffix in {".js", ".html", ".css"} and path.parent.name != "vendor"
)
SHIPPED = sorted(path for path in WEB.rglob("*") if path.suffix in {".js", ".html", ".css", ".svg"})
MARKUP = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|localStorage")
ADDRESS = re.compile(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", re.IGNORECASE)
INLINE = re.compile(r"""\sstyle=["']|\son[a-z]+=["']""")
BUDGET = 80_000
"""Bytes of all that a browser loads, compressed."""


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
    files = PageFiles()
    bodies = [files.body(path) for path in sorted(files.paths)]
    assert len(gzip.compress(b"".join(bodies))) <= BUDGET


def test_what_is_left_out_of_a_script_that_is_sent_is_a_comment() -> None:
    for path in SHIPPED:
        if path.suffix == ".js" and path.parent.name != "vendor":
            source = path.read_bytes()
            sent = without_comments(source).splitlines()
            left_out = "\n".join(line for line in source.decode().splitlines() if line.encode() not in sent)
            # What is a comment is one from its first line to its last, wherever else it might have been found.
            assert not re.sub(r"/\*\*.*?\*/|^// .*$", "", left_out, flags=re.DOTALL | re.MULTILINE).strip(), path


def test_every_module_is_reached_from_the_page() -> None:
    reached, waiting = set[Path](), [WEB / "app.js"]
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            names = re.findall(r"""(?:from|import)\s*["'](\.[^"']+)["']""", module.read_text(encoding="utf-8"))
            waiting += [(module.parent / name).resolve() for name in names]
    assert {path for path in SHIPPED if path.suffix == ".js"} == reached
