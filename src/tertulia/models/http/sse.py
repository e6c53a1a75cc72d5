"""Server-sent events, as far as model providers use them: bytes go in, the data of whole events comes out.

Deliberately no more: names, ids and retry advice of events are skipped, because what providers say in them they say
in the data as well. And nothing is read or decoded here.
"""

from __future__ import annotations

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Of one event. The last one of an answer may repeat all of it; of a longer one its reading would take too long."""

_BOM = b"\xef\xbb\xbf"


class EventTooLargeError(Exception):
    """An event has more than anybody needs; of what is its text."""


class EventSplitter:
    """Cuts one stream into events. However the stream is cut into chunks, the events are the same.

    Lines end with CR, LF or both; `data` lines of one event are joined by LF; an event that is not closed by an empty
    line never happened. Holds at most one unfinished event.
    """

    __slots__ = ("_after_cr", "_begun", "_data", "_data_size", "_line", "_line_size")

    def __init__(self) -> None:
        self._begun = False
        self._after_cr = False
        # In pieces: joining them anew with each chunk would cost the square of their length.
        self._line: list[bytes] = []
        self._line_size = 0
        # In one piece: an event may have millions of lines, and each would cost several times its bytes.
        self._data: bytearray | None = None
        self._data_size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that this chunk makes whole; EventTooLarge when one has no end."""
        if self._after_cr and chunk:
            # A CR at the end of a chunk has ended its line; an LF after it belongs to the same line end.
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\n" in chunk or b"\r" in chunk:
            return self._take(self._lines(chunk))
        self._line.append(chunk)
        self._line_size += len(chunk)
        self._check()
        return []

    def _lines(self, chunk: bytes) -> list[bytes]:
        self._after_cr = chunk.endswith(b"\r")
        lines = b"".join((*self._line, chunk)).splitlines()
        self._line = [] if chunk.endswith((b"\n", b"\r")) else [lines.pop()]
        self._line_size = sum(map(len, self._line))
        if not self._begun:
            self._begun = True
            lines[0] = lines[0].removeprefix(_BOM)
        return lines

    def _take(self, lines: list[bytes]) -> list[bytes]:
        events: list[bytes] = []
        for line in lines:
            if line.startswith(b"data:") or line == b"data":
                if self._data is None:
                    self._data = bytearray()
                else:
                    self._data += b"\n"
                self._data += line[6:] if line.startswith(b" ", 5) else line[5:]
                self._data_size += len(line)
                self._check()
            elif not line and self._data is not None:
                if self._data:
                    events.append(bytes(self._data))
                self._data = None
                self._data_size = 0
        return events

    def _check(self) -> None:
        if self._line_size + self._data_size > MAX_EVENT_BYTES:
            raise EventTooLargeError(f"more than {MAX_EVENT_BYTES:,} bytes")
