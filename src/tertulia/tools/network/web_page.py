"""Gets a page of the web over a connection that a gate has allowed, and takes the text out of it."""

from __future__ import annotations

import asyncio
import re
import ssl
from functools import cache
from html.parser import HTMLParser
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from tertulia.errors import ApprovalDeniedError, InvalidParamsError, SandboxError
from tertulia.policy.display_text import visible
from tertulia.policy.hosts import HostName, parse_host
from tertulia.sandbox.proxy.addresses import CONNECT_S
from tertulia.sandbox.proxy.gate import Access, BudgetSpentError, HostGate, HostRefusedError, UnreachableError
from tertulia.sandbox.proxy.http_head import MAX_HEAD, BadMessageError, Response, read_response
from tertulia.sandbox.proxy.relay import Meter
from tertulia.version import __version__

MAX_PAGE_BYTES = 2 * 1024 * 1024
MAX_REDIRECTS = 5
PAGE_S = 60.0
_MAX_URL = 4_096
_REDIRECTS = (301, 302, 303, 307, 308)
_TEXT = re.compile(r"text/|application/(json|xml|javascript|.*\+(json|xml))")
_CHUNK = 65_536


class PageUrl(msgspec.Struct, frozen=True):
    """The address of a page, in parts."""

    secure: bool
    host: HostName
    port: int
    path: str

    def text(self) -> str:
        """As it is shown to models and sent to servers."""
        name = f"[{self.host.name}]" if ":" in self.host.name else self.host.name
        usual = self.port == (443 if self.secure else 80)
        return f"{'https' if self.secure else 'http'}://{name}{'' if usual else f':{self.port}'}{self.path}"


class WebPage(msgspec.Struct, frozen=True):
    """A page that was fetched, or the beginning of it."""

    url: PageUrl
    status: int
    kind: str
    """Its content type, as the server says it."""
    body: bytes
    truncated: bool

    def text(self) -> str:
        """For a model: where it is from, and its text."""
        head = f"{visible(self.url.text())} ({self.status}, {visible(self.kind) or 'no content type'})"
        if self.truncated:
            head += f"\nOnly the first {MAX_PAGE_BYTES:,} bytes were read."
        kind = self.kind.partition(";")[0].strip().lower()
        if kind and not _TEXT.fullmatch(kind) and not kind.startswith("text/"):
            return f"{head}\nIt is no text: {len(self.body):,} bytes were not shown."
        found = re.search(r"charset=[\"']?([\w-]+)", self.kind)
        try:
            text = self.body.decode(found[1] if found else "utf-8", "replace")
        except LookupError:
            text = self.body.decode("utf-8", "replace")
        is_html = "html" in kind or (not kind and text.lstrip()[:1] == "<")
        return f"{head}\n\n{html_text(text) if is_html else text}"


def parse_url(url: str) -> PageUrl:
    """InvalidParams for what is no address of a page, or has a user's name in it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidParamsError(f"{url!r:.200} is no address of a page") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or len(url) > _MAX_URL:
        raise InvalidParamsError(f"{url!r:.200} is no address of a page; it begins with https:// or http://")
    if "@" in parts.netloc or "\\" in parts.netloc:
        raise InvalidParamsError("an address with a user's name in it is not fetched")
    secure = parts.scheme == "https"
    host = parse_host(f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname)
    path = quote(parts.path or "/", safe="/%:=&~+!$,;'@()*-._")
    query = f"?{quote(parts.query, safe='/%:=&~+!$,;@()*?-._')}" if parts.query else ""
    return PageUrl(secure, host, port or (443 if secure else 80), path + query)


async def fetch_page(url: str, gate: HostGate) -> WebPage:
    """The page, after as many redirects as are followed. ApprovalDenied where a host of them is refused."""
    target = parse_url(url)
    for _ in range(MAX_REDIRECTS + 1):
        page, leads_to = await _fetch_one(target, gate)
        if leads_to is None:
            return page
        before, target = target, parse_url(urljoin(target.text(), leads_to))
        if before.secure and not target.secure:
            raise InvalidParamsError(f"{before.text():.200} leads from https to http, which is not followed")
    raise InvalidParamsError(f"{url:.200} leads to more than {MAX_REDIRECTS} other addresses")


async def _fetch_one(target: PageUrl, gate: HostGate) -> tuple[WebPage, str | None]:
    meter, access = Meter(gate), Access(host=target.host.name, port=target.port, verdict="allowed", because="")
    try:
        addresses, because = await gate.admit(target.host, target.port)
        access = msgspec.structs.replace(access, because=because)
        async with asyncio.timeout(PAGE_S):
            return await _get(target, str(addresses[0]), meter)
    except (HostRefusedError, BudgetSpentError) as error:
        access = msgspec.structs.replace(access, verdict="refused", because=str(error))
        raise ApprovalDeniedError(str(error)) from None
    except (OSError, EOFError, ValueError, asyncio.LimitOverrunError, UnreachableError, BadMessageError) as error:
        reason = str(error) if isinstance(error, UnreachableError | BadMessageError) else type(error).__name__
        access = msgspec.structs.replace(access, verdict="failed", because=reason)
        raise SandboxError(f"{target.text():.200} was not read: {reason}") from None
    finally:
        gate.tell(msgspec.structs.replace(access, bytes=meter.bytes))
        gate.finish()


@cache
def tls_context() -> ssl.SSLContext:
    """As this machine trusts servers."""
    return ssl.create_default_context()


async def _get(target: PageUrl, address: str, meter: Meter) -> tuple[WebPage, str | None]:
    tls, name = (tls_context(), target.host.name) if target.secure else (None, None)
    async with asyncio.timeout(CONNECT_S):
        reader, writer = await asyncio.open_connection(
            address, target.port, limit=MAX_HEAD, ssl=tls, server_hostname=name
        )
    try:
        name = target.text().split("/")[2]
        agent = f"User-Agent: tertulia/{__version__}\r\nAccept: text/html, text/*, application/json, */*;q=0.1"
        request = f"GET {target.path} HTTP/1.1\r\nHost: {name}\r\n{agent}\r\nAccept-Encoding: identity\r\n"
        data = f"{request}Connection: close\r\n\r\n".encode("ascii")
        meter.add(len(data))
        writer.write(data)
        response = await _head(reader, meter)
        fields = dict(response.fields)
        if response.status in _REDIRECTS and b"location" in fields:
            return WebPage(target, response.status, "", b"", False), fields[b"location"].decode("latin-1")
        body, truncated = await _body(reader, response, meter)
        kind = fields.get(b"content-type", b"").decode("latin-1")
        return WebPage(target, response.status, kind, body, truncated), None
    finally:
        writer.transport.abort()


async def _head(reader: asyncio.StreamReader, meter: Meter) -> Response:
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise BadMessageError("the head of the answer is too long") from None
        meter.add(len(head))
        response = read_response(head)
        if response.status >= 200:
            return response


async def _body(reader: asyncio.StreamReader, response: Response, meter: Meter) -> tuple[bytes, bool]:
    length, body = response.body(b"GET"), bytearray()
    chunked = dict(response.fields).get(b"transfer-encoding", b"").lower() == b"chunked"
    while len(body) <= MAX_PAGE_BYTES and (length is None or len(body) < length):
        data = await _chunk(reader) if chunked else await reader.read(_CHUNK)
        if not data:
            break
        meter.add(len(data))
        body += data
    return bytes(body[:MAX_PAGE_BYTES]), len(body) > MAX_PAGE_BYTES


async def _chunk(reader: asyncio.StreamReader) -> bytes:
    """The next chunk; of one that is too long as much as counts, which is then the last."""
    size = int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16)
    data = await reader.readexactly(min(size, MAX_PAGE_BYTES + 1))
    if 0 < len(data) == size:
        await reader.readexactly(2)
    return data


_SILENT = {"script", "style", "noscript", "template", "svg", "head", "iframe", "object"}
_BLOCKS = {
    *("p", "div", "br", "li", "ul", "ol", "tr", "table", "section", "article", "header", "footer", "main", "nav", "hr"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "pre", "blockquote", "dt", "dd", "form", "figure", "title"),
}


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._silent: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent.append(tag)
        elif tag in _BLOCKS:
            self.pieces.append("\n- " if tag == "li" else "\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._silent:
            while self._silent.pop() != tag:
                pass
        elif tag in _BLOCKS:
            self.pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.pieces.append(re.sub(r"\s+", " ", data))


def html_text(page: str) -> str:
    """The text of an HTML page: blocks on lines of their own, without scripts and styles."""
    parser = _Text()
    parser.feed(page)
    parser.close()
    lines = (" ".join(line.split()) for line in "".join(parser.pieces).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
