"""Parses one HTTP/1.1 response from the bytes of a connection, and says where it ends. Uses no sockets.

What a provider of models sends, and no more: no compression, which is not asked for. What is ambiguous about where a
response ends is refused, never guessed: the next one on the connection would be read from the wrong place.
"""

from __future__ import annotations

import re
from typing import Literal

MAX_HEAD_BYTES = 64 * 1024
"""The most bytes of a status line with all headers, and of the trailers after the last chunk."""
_MAX_LINE_BYTES = 4_096
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n]*)?")
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_LENGTH = re.compile(r"[0-9]{1,18}")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,12})[ \t]*(?:;.*)?", re.DOTALL)
_USUAL_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,12})\r\n")
_SWITCHING = 101

_Part = Literal["head", "counted", "size", "chunk", "chunk end", "trailer", "until closed"]


class NotHttpError(Exception):
    """What came is not a response of HTTP, or not one whose end is certain."""


class HttpResponse:
    """One response while it comes: head, then body. However its bytes are cut, it is the same."""

    __slots__ = ("_body", "_left", "_part", "_rest", "buffered", "done", "headers", "keeps_open", "status", "surplus")

    def __init__(self) -> None:
        self.status: int | None = None
        """None until the head has come whole."""
        self.headers: dict[str, str] = {}
        """By name in lower case; several of one name are joined by a comma."""
        self.done = False
        """Whether the response is complete."""
        self.surplus = False
        """Whether more bytes arrived than belong to it."""
        self.keeps_open = False
        """Whether the connection serves another request after it."""
        self.buffered = 0
        """Bytes of the body that were not taken yet."""
        self._body: list[bytes] = []
        self._rest = b""
        """The beginning of a head or line that is not whole."""
        self._left = 0
        """Bytes that are missing of the body, or of the chunk."""
        self._part: _Part = "head"

    def take(self) -> bytes:
        """The body as far as it has come, but for what was taken before."""
        body = self._body
        self._body, self.buffered = [], 0
        return body[0] if len(body) == 1 else b"".join(body)

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the connection; NotHttpError when they are no response."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        start = 0
        while self._part == "head" and not self.done:
            start = self._read_head(data, start)
            if start < 0:
                return
        if self._part == "until closed":
            self._keep(data[start:])
        elif not self.done:
            start = self._read_counted(data, start) if self._part == "counted" else self._read_chunks(data, start)
        if self.done and start < len(data) and self._part != "until closed":
            self.surplus, self.keeps_open = True, False

    def end(self) -> bool:
        """No more will come; whether the response is whole."""
        self.done = self.done or self._part == "until closed"
        return self.done

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._body.append(piece)
            self.buffered += len(piece)

    # ---- the head

    def _read_head(self, data: bytes, start: int) -> int:
        """Read the head that begins there; where the rest begins, -1 where it is not whole."""
        end = data.find(b"\r\n\r\n", start)
        if (len(data) if end < 0 else end) - start > MAX_HEAD_BYTES:
            raise NotHttpError("the head is too long")
        if end < 0:
            self._rest = data[start:]
            if not b"HTTP/1.".startswith(self._rest[:7]):
                raise NotHttpError("there is no status line")
            return -1
        head = data[start:end]
        first, *lines = head.split(b"\r\n")
        status = _STATUS.fullmatch(first)
        if status is None:
            raise NotHttpError("there is no status line")
        if head.count(b"\n") + head.count(b"\r") != 2 * len(lines):
            raise NotHttpError("a header with a line break in it")
        number = int(status[2])
        headers = _read_headers(lines)
        if number >= 200 or number == _SWITCHING:
            # Those below announce another head.
            self.status, self.headers = number, headers
            self._find_end(number, headers, is_old=status[1] == b"0")
        return end + 4

    def _find_end(self, status: int, headers: dict[str, str], *, is_old: bool) -> None:
        connection = headers.get("connection", "").lower()
        self.keeps_open = "keep-alive" in connection if is_old else "close" not in connection
        coding, length = headers.get("transfer-encoding"), headers.get("content-length")
        if status == _SWITCHING or status in (204, 304):
            self.done, self.keeps_open = True, self.keeps_open and status != _SWITCHING
        elif coding is not None:
            if coding.lower() != "chunked" or is_old:
                raise NotHttpError("a transfer encoding that was not asked for")
            # With a length as well the length does not count, and what follows is not trusted.
            self._part, self.keeps_open = "size", self.keeps_open and length is None
        elif length is not None:
            if not _LENGTH.fullmatch(length):
                raise NotHttpError("no length")
            self._part, self._left = "counted", int(length)
            self.done = not self._left
        else:
            self._part, self.keeps_open = "until closed", False

    # ---- the body

    def _read_counted(self, data: bytes, start: int) -> int:
        piece = data[start : start + self._left]
        self._keep(piece)
        self._left -= len(piece)
        self.done = not self._left
        return start + len(piece)

    def _read_chunks(self, data: bytes, start: int) -> int:
        """Read chunks as far as they have come; where the next one begins."""
        if self._part == "size":
            start = self._read_whole_chunks(data, start)
        while not self.done:
            if self._part == "chunk":
                piece = data[start : start + self._left]
                self._keep(piece)
                start += len(piece)
                self._left -= len(piece)
                if self._left:
                    break
                self._part = "chunk end"
            end = data.find(b"\r\n", start)
            if (len(data) if end < 0 else end) - start > _MAX_LINE_BYTES:
                raise NotHttpError("a line between chunks is too long")
            if end < 0:
                self._rest = data[start:]
                return len(data)
            self._read_line(data[start:end])
            start = end + 2
        return start

    def _read_whole_chunks(self, data: bytes, start: int) -> int:
        """Read chunks that have come whole and have no more than a size, as most do; where the next one begins."""
        match, pieces, size = _USUAL_CHUNK.match, self._body, 0
        while found := match(data, start):
            begin = found.end()
            end = begin + int(found[1], 16)
            if begin == end or data[end : end + 2] != b"\r\n":
                break
            pieces.append(data[begin:end])
            size += end - begin
            start = end + 2
        self.buffered += size
        return start

    def _read_line(self, line: bytes) -> None:
        """What stands between the chunks."""
        if self._part == "chunk end":
            if line:
                raise NotHttpError("a chunk that is longer than it says")
            self._part = "size"
        elif self._part == "trailer":
            self._left += len(line)
            if self._left > MAX_HEAD_BYTES:
                raise NotHttpError("there is too much after the last chunk")
            self.done = not line
        else:
            size = _CHUNK_SIZE.fullmatch(line)
            if size is None:
                raise NotHttpError("a chunk without a size")
            self._left = int(size[1], 16)
            self._part = "chunk" if self._left else "trailer"


def _read_headers(lines: list[bytes]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        named, colon, text = line.partition(b":")
        if not (colon and _NAME.fullmatch(named)):
            raise NotHttpError("a header without a name")
        name, value = named.decode().lower(), text.strip(b" \t").decode("latin-1")
        before = headers.get(name)
        # The same length twice is one length.
        if before is None or (name == "content-length" and before == value):
            headers[name] = value
        else:
            headers[name] = f"{before}, {value}"
    return headers
