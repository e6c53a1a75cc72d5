"""The sources of the dashboard's page as they are sent: without comments, styles in the page; no build step."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from posixpath import dirname, join, normpath
from urllib.parse import quote

_COMMENT_LINES = re.compile(rb"^[ \t]*(?:// .*|/\*\*(?:(?!\*/).)*(?:\*/)?|\*(?: .*|/)?)\n", re.MULTILINE)
"""Lines of our scripts that are comments and nothing else: types and reasons, which no browser reads."""
_INLINE_TYPES = re.compile(rb"/\*\* @type [^\n]*?\*/ ?")
_INDENTS = re.compile(rb"^[ \t]+", re.MULTILINE)
_STYLE_COMMENTS = re.compile(rb"/\*.*?\*/\n?|^[ \t]+", re.DOTALL | re.MULTILINE)
_STYLE_IMPORT = re.compile(rb'^@import "\./([\w/.-]+)";\n', re.MULTILINE)
_STYLE_BLANKS = re.compile(rb"(?<=[:,]) +|\s*([{};>])\s*")
_ICON_LINK = re.compile(rb'(?<=<link rel="icon" href=")/([\w/.-]+\.svg)(?=")')
_STYLE_LINK = re.compile(rb'<link rel="stylesheet" href="/([\w/.-]+)" />')
_STATIC_IMPORT = re.compile(rb"""^(?:import|export)\b[^;("']*["'](\.[^"']+)["']""", re.MULTILINE)
_VENDOR = "vendor/"


def script_as_sent(name: str, source: bytes) -> bytes:
    """A script without comments and indents; one from others as it is.

    A line of a template that looks like a comment would go too: there are none. Blanks at the beginning of a line of a
    template mean nothing either: it is HTML.
    """
    if name.startswith(_VENDOR):
        return source
    return _INDENTS.sub(b"", _INLINE_TYPES.sub(b"", _COMMENT_LINES.sub(b"", source)))


def style_as_sent(source: bytes, read: Callable[[str], bytes]) -> bytes:
    """A style sheet, with those in it that it imports. `read`: the source of one of these, by its name."""
    whole = _STYLE_IMPORT.sub(lambda found: read(found[1].decode()), source)
    return _STYLE_BLANKS.sub(rb"\1", _STYLE_COMMENTS.sub(b"", whole))


def page_as_sent(source: bytes, read: Callable[[str], bytes]) -> bytes:
    """A page, with the sheets in it that it links: a browser draws nothing before it has them.

    And with its icon, which a browser would ask for again whenever the page changes its address.
    """
    page = _STYLE_LINK.sub(lambda found: b"<style>%b</style>" % style_as_sent(read(found[1].decode()), read), source)
    return _ICON_LINK.sub(lambda found: f"data:image/svg+xml,{quote(read(found[1].decode()))}".encode(), page)


def linked_styles(source: bytes) -> Iterator[str]:
    """The names of the sheets that a page links."""
    return (name.decode() for name in _STYLE_LINK.findall(source))


def imported_styles(source: bytes) -> Iterator[str]:
    """The names of the sheets that a style sheet imports."""
    return (name.decode() for name in _STYLE_IMPORT.findall(source))


def first_scripts(begin: str, scripts: Mapping[str, bytes]) -> list[str]:
    """The scripts that one needs before it can run, itself among them: not those that it loads later.

    Args:
        begin: The path of that one.
        scripts: What is sent for every path.
    """
    needed, waiting = set[str](), [begin]
    while waiting:
        path = waiting.pop()
        if path not in needed and path in scripts:
            needed.add(path)
            names = (name.decode() for name in _STATIC_IMPORT.findall(scripts[path]))
            waiting += [normpath(join(dirname(path), name)) for name in names]
    return sorted(needed)
