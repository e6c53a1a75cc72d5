"""What a docstring tells about a function and its parameters, in the three styles people write."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from itertools import takewhile

_GOOGLE_SECTION = re.compile(r"(Args|Arguments|Parameters|Params):\s*")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:\s*(.*)")
_NUMPY_SECTION = re.compile(r"(Other )?Parameters\s*")
_NUMPY_ENTRY = re.compile(r"(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?()")
_UNDERLINE = re.compile(r"-{3,}\s*")
_SPHINX_ENTRY = re.compile(r":param\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)")


def summary(doc: str | None) -> str:
    """The first paragraph, as one line; empty when the docstring begins with its parameters."""
    first = inspect.cleandoc(doc or "").split("\n\n", 1)[0]
    begins_with_parameters = _GOOGLE_SECTION.match(first) or _SPHINX_ENTRY.match(first) or "\n---" in first
    return "" if begins_with_parameters else " ".join(first.split())


def parameters(doc: str | None) -> dict[str, str]:
    """What is said about each parameter: Google's `Args:`, NumPy's underlined `Parameters`, Sphinx's `:param:`."""
    lines = inspect.cleandoc(doc or "").splitlines()
    found = {**_entries(lines, _SPHINX_ENTRY)}
    for number, line in enumerate(lines):
        after = lines[number + 1 :]
        if _GOOGLE_SECTION.fullmatch(line):
            body = "\n".join(takewhile(lambda line: not line or line[0].isspace(), after))
            found.update(_entries(textwrap.dedent(body).splitlines(), _GOOGLE_ENTRY))
        elif _NUMPY_SECTION.fullmatch(line) and after and _UNDERLINE.fullmatch(after[0]):
            found.update(_entries(_numpy_body(after[1:]), _NUMPY_ENTRY))
    return found


def _numpy_body(lines: list[str]) -> Iterator[str]:
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if _UNDERLINE.fullmatch(following):
            return
        yield line


def _entries(lines: Iterable[str], entry: re.Pattern[str]) -> dict[str, str]:
    """An entry begins at the margin; indented lines go on with it."""
    blocks: list[tuple[list[str], list[str]]] = []
    for line in lines:
        if line[:1].isspace() and blocks:
            blocks[-1][1].append(line)
        elif line:
            match = entry.fullmatch(line)
            blocks.append((re.split(r"\s*,\s*", match[1]), [match[2]]) if match else ([], []))
    return {name: " ".join(" ".join(text).split()) for names, text in blocks for name in names}
