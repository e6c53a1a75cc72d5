"""Server-sent events, as far as model providers use them: takes bytes, returns the data of whole events.

Not a full reader of the format: names, ids and retry advice of events are skipped, because what providers say in them
they say in the data as well. Nothing is read from a connection or decoded here.
"""

from __future__ import annotations

import re

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Of one event. The last event of an answer may repeat all of it; a longer one would take too long to parse."""

MAX_WIDE_EVENT_BYTES = 4 * 1024 * 1024
"""Of one event that is not plain ASCII: Python takes five times its bytes for a moment in order to decode a text."""

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n?|\n")
_HEAD_BYTES = 16
"""So many bytes of a line are buffered until its field is known: more than a byte order mark and a field name."""


class EventTooLargeError(Exception):
    """An event is over a limit; its text says which one."""


class EventSplitter:
    """Cuts one stream into events. However the stream is cut into chunks, the events are the same.

    Lines end with CR, LF or both; `data` lines of one event are joined by LF; an event that is not closed by an empty
    line is dropped. Holds at most one unfinished event, in one copy: a long line is appended to its event as it
    arrives.
    """

    __slots__ = ("_after_cr", "_data", "_data_size", "_head", "_in_line", "_is_data", "_skipped", "_started")

    def __init__(self) -> None:
        self._started = False
        self._after_cr = False
        self._head = b""
        """The beginning of a line that has not ended, as long as it is short."""
        self._in_line = False
        """Whether the last chunk ended within a line that was too long for `_head`."""
        self._is_data = False
        """Whether that is a `data` line; of any other nothing is kept."""
        self._skipped = 0
        """Bytes of that line, where nothing is kept of it."""
        # One buffer: an event may have millions of lines, and an object for each would cost several times its bytes.
        self._data: bytearray | None = None
        self._data_size = 0

    def feed(self, chunk: bytes) -> list[bytearray]:
        """The data of the events that this chunk completes; EventTooLargeError when one has no end."""
        if self._after_cr and chunk:
            # A CR at the end of a chunk has ended its line; an LF after it belongs to the same line end.
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if self._in_line:
            chunk = self._continue_line(chunk)
        if self._in_line or not chunk:
            return []
        if (events := self._plain_events(chunk)) is not None:
            return events
        events = self._take(self._lines(self._head + chunk))
        if len(self._head) > _HEAD_BYTES:
            self._begin_long_line()
        return events

    def _plain_events(self, chunk: bytes) -> list[bytearray] | None:
        """The events of a chunk that has only whole ones, of one short line each, as most have; None for any other."""
        if self._data is not None or self._head or len(chunk) > MAX_EVENT_BYTES >> 8 or b"\r" in chunk:
            return None
        if not (chunk.startswith(b"data: ") and chunk.endswith(b"\n\n")):
            return None
        bodies = chunk[6:-2].split(b"\n\ndata: ")
        if chunk.count(b"\n") != 2 * len(bodies):
            return None
        self._started = True
        return [bytearray(body) for body in bodies if body]

    def _lines(self, text: bytes) -> list[bytes]:
        """The lines that have ended; the rest is kept in `_head`."""
        is_whole = text.endswith((b"\n", b"\r"))
        self._after_cr = text.endswith(b"\r")
        lines = text.splitlines()
        self._head = b"" if is_whole else lines.pop()
        if not self._started and (lines or len(self._head) > _HEAD_BYTES):
            self._started = True
            if lines:
                lines[0] = lines[0].removeprefix(_BOM)
            else:
                self._head = self._head.removeprefix(_BOM)
        return lines

    def _begin_long_line(self) -> None:
        head, self._head = self._head, b""
        self._in_line = True
        self._is_data = head.startswith(b"data:")
        self._skipped = 0
        if self._is_data:
            self._add_data_line(head)
        else:
            self._add(head)

    def _continue_line(self, chunk: bytes) -> bytes:
        """Take what of the chunk belongs to the long line; what comes after it."""
        end = _LINE_END.search(chunk)
        if end is None:
            self._add(chunk)
            return b""
        self._add(chunk[: end.start()])
        self._in_line = False
        self._skipped = 0
        self._after_cr = end[0] == b"\r" and end.end() == len(chunk)
        return chunk[end.end() :]

    def _take(self, lines: list[bytes]) -> list[bytearray]:
        events: list[bytearray] = []
        self._is_data = True
        for line in lines:
            if self._data is None and line.startswith(b"data: ") and len(line) <= MAX_EVENT_BYTES >> 8:
                # The usual event: one short line.
                self._data = bytearray(line[6:])
                self._data_size = len(line)
            elif line.startswith(b"data:") or line == b"data":
                self._add_data_line(line)
            elif not line and self._data is not None:
                if self._data:
                    events.append(bounded_event(self._data))
                self._data = None
                self._data_size = 0
        return events

    def _add_data_line(self, line: bytes) -> None:
        if self._data is None:
            self._data = bytearray()
        else:
            self._data += b"\n"
        value = line[6:] if line.startswith(b" ", 5) else line[5:]
        # An empty line takes room as well.
        self._data_size += len(line) - len(value)
        self._add(value)

    def _add(self, piece: bytes) -> None:
        if self._is_data:
            assert self._data is not None
            self._data += piece
            self._data_size += len(piece)
        else:
            self._skipped += len(piece)
        if self._data_size + self._skipped > MAX_EVENT_BYTES:
            raise EventTooLargeError(f"more than {MAX_EVENT_BYTES:,} bytes")


def bounded_event(event: bytearray) -> bytearray:
    """The event, unless it is too long for what it is made of."""
    if len(event) > MAX_WIDE_EVENT_BYTES and not (event.isascii() and b"\\u" not in event):
        raise EventTooLargeError(f"more than {MAX_WIDE_EVENT_BYTES:,} bytes that are not all ASCII")
    return event
