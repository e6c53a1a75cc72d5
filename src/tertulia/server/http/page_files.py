"""The files of the dashboard's page, served as a fixed list that is made when the server starts.

No part of a request's path ever reaches the file system. The files need no token: they hold nothing but the program of
the page, which asks for the token and gets everything else over `/ws`.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from tertulia.server.http.page_sources import (
    first_scripts,
    imported_styles,
    linked_styles,
    page_as_sent,
    script_as_sent,
    style_as_sent,
)
from tertulia.version import __version__

PAGES_FOLDER = Path(__file__).parents[2] / "web"
_INDEX, _FRAME, _FIRST_SCRIPT = "index.html", "frame.html", "/app.js"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}
"""What is served, by the end of its name; licences, checksums and types of the page's own tests are not."""
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_SCRIPT = re.compile(rb"<script\b([^>]*)>(.*?)</script\s*>", re.DOTALL | re.IGNORECASE)
_STYLE = re.compile(rb"<style\b([^>]*)>(.*?)</style\s*>", re.DOTALL | re.IGNORECASE)

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src {styles}; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
"""Of the page itself: `styles` is the digest of the sheet that stands in it, else our own files."""
_FRAME_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; "
    "form-action 'none'; frame-ancestors 'self'"
)
"""Of the frame that shows what a model made: only our own script runs there, known by its digest."""
_MISSING = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Tertulia</title>
<h1>Tertulia {__version__}</h1>
<p>The files of the dashboard are missing from this installation: install Tertulia again, from a wheel or from a whole
checkout. The server itself works.</p>
<p>For programs there is JSON-RPC over WebSocket at <code>/ws</code>, and MCP at <code>/mcp</code>. Every request needs
the token that is in the file <code>serve.token</code> of Tertulia's folder, as
<code>Authorization: Bearer TOKEN</code>. Only this page and the status at <code>/health</code> need none.</p>
<p>The documentation is in the folder <code>docs</code> of Tertulia: <code>serve.md</code> and <code>clients.md</code>.
<code>tertulia schema</code> prints every operation and event, <code>/openapi.json</code> describes the paths.</p>
</html>
"""


class PageFile:
    """One file of the page, as it is sent."""

    def __init__(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        """`path`: where it is asked for; `/` is the page itself."""
        self.path = path
        self.body = body
        self.headers = headers
        self._packed: bytes | None = None

    @property
    def packed(self) -> bytes:
        """The body with gzip; made once, when a browser first asks."""
        if self._packed is None:
            # Without the time: what is sent depends on nothing but the file.
            self._packed = gzip.compress(self.body, 9, mtime=0)
        return self._packed

    def answer(self, request: Request) -> Response:
        """The file; or that the client's copy of it is still the same."""
        packs = "gzip" in request.headers.get("accept-encoding", "")
        headers = {**self.headers, "vary": "accept-encoding"}
        if packs:
            headers["etag"] = f'{self.headers["etag"][:-1]}-gzip"'
        if _has_tag(request.headers.get("if-none-match", ""), headers["etag"]):
            del headers["content-type"]
            return Response(status_code=304, headers=headers)
        if packs:
            headers["content-encoding"] = "gzip"
        return Response(self.packed if packs else self.body, headers=headers)


class PageFiles:
    """All files of the page, read once."""

    def __init__(self, folder: Path = PAGES_FOLDER) -> None:
        self._files = {file.path: file for file in _read_folder(folder)}
        self.paths = frozenset({"/", *self._files})
        """The paths that need no token."""
        self.routes = [Route(path, self._answer, methods=["GET"]) for path in sorted(self.paths)]

    def file(self, path: str) -> PageFile:
        """The file that is sent for this path."""
        return self._files[path]

    async def _answer(self, request: Request) -> Response:
        file = self._files.get(request.url.path)
        return file.answer(request) if file is not None else HTMLResponse(_MISSING)


def _read_folder(folder: Path) -> list[PageFile]:
    if not (folder / _INDEX).is_file():
        return []
    sources = {
        place.relative_to(folder).as_posix(): place.read_bytes()
        for place in sorted(folder.rglob("*"))
        if place.suffix in _TYPES and place.is_file() and not place.is_symlink() and _is_plain(place, folder)
    }
    within = {name for source in sources.values() for name in imported_styles(source)}
    within |= set(linked_styles(sources[_INDEX]))
    files = [_page_file(name, sources) for name in sources if name not in within]
    scripts = {file.path: file.body for file in files if file.path.endswith(".js")}
    if needed := first_scripts(_FIRST_SCRIPT, scripts):
        page = next(file for file in files if file.path == "/")
        # A browser asks for these at once, and not for one when it has read another that imports it.
        page.headers["link"] = ", ".join(f"<{path}>; rel=modulepreload" for path in needed)
    return files


def _is_plain(place: Path, folder: Path) -> bool:
    """Whether all of its name means only itself in an address, and nothing in it is hidden."""
    return all(_NAME.fullmatch(part) for part in place.relative_to(folder).parts)


def _page_file(name: str, sources: Mapping[str, bytes]) -> PageFile:
    body = sources[name]
    if name.endswith(".js"):
        body = script_as_sent(name, body)
    elif name.endswith(".css"):
        body = style_as_sent(body, sources.__getitem__)
    elif name == _INDEX:
        body = page_as_sent(body, sources.__getitem__)
    headers = {
        "content-type": _TYPES[Path(name).suffix],
        "etag": f'"{hashlib.sha256(body).hexdigest()[:32]}"',
        # Scripts and styles are asked for again each time, and sent only where they have changed.
        "cache-control": "no-store" if name.endswith(".html") else "no-cache",
    }
    if name == _FRAME:
        headers["content-security-policy"] = _FRAME_POLICY.format(scripts=_digests(_SCRIPT, body) or "'none'")
    elif name.endswith(".html"):
        headers["content-security-policy"] = PAGE_POLICY.format(styles=_digests(_STYLE, body) or "'self'")
    return PageFile("/" if name == _INDEX else f"/{name}", body, headers)


def _digests(element: re.Pattern[bytes], body: bytes) -> str:
    """The scripts or styles that stand in a page, as a policy names them."""
    texts = [text for attributes, text in element.findall(body) if b"src" not in attributes.lower()]
    digests = [base64.b64encode(hashlib.sha256(text).digest()).decode() for text in texts]
    return " ".join(f"'sha256-{digest}'" for digest in digests)


def _has_tag(header: str, tag: str) -> bool:
    """Whether `If-None-Match` names this tag; a weak one says that the content means the same, which is enough."""
    tags = {part.strip().removeprefix("W/") for part in header.split(",")}
    return tag in tags or "*" in tags
