"""Numbers and encodes rows. A body is redacted here, before it can be stored, or left out by its policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tertulia.protocol.records import has_long_text
from tertulia.protocol.storage import StoragePolicy
from tertulia.rollout.store import LongBody, Row, allows_body

Fields = dict[str, Any] | msgspec.Struct
_encode = msgspec.json.Encoder().encode
_LONG = 64 * 1024
"""Bytes from which on a body is redacted by the thread that stores it, and characters of a text in it from which on it
is encoded there as well: a text that was made for it takes 0.2 µs a byte."""


class RowEncoder:
    """Makes the rows of one event or record after the other."""

    __slots__ = ("_redact", "n", "rows")

    def __init__(self, redact: Callable[[bytes], bytes], n: int) -> None:
        self._redact = redact
        self.n = n
        """The last number given out; never used again, also when a write has failed."""
        self.rows: list[Row] = []

    def put(
        self, kind: str, type: str, conversation: int, ts: float, header: Fields, *, policy: StoragePolicy,
        body: Fields | None = None, seq: int | None = None, task: int = 0, source: int = 0,
    ) -> int:  # fmt: skip
        """Add a row; its number."""
        self.n += 1
        written = self._body(body) if body and allows_body(policy) else None
        row = Row(self.n, kind, type, ts, seq, conversation, task, _header(header), written, policy, source)
        self.rows.append(row)
        return self.n

    def _body(self, body: Fields) -> bytes | LongBody | None:
        try:
            if has_long_text(body, _LONG):
                # Without the objects of its owner, who may change them before it is stored.
                return LongBody(msgspec.to_builtins(body), self._encoded)
            encoded = _encode(body)
            return LongBody(encoded, self._redacted) if len(encoded) > _LONG else self._redacted(encoded)
        except (TypeError, ValueError, RecursionError):
            # What is no JSON, or broken Unicode, could not be sent to a client either. That it happened is recorded.
            return None

    def _encoded(self, body: Any) -> bytes | None:
        # Imported here: most bodies are short.
        from tertulia.protocol.json_steps import encode_long

        try:
            return self._redact(encode_long(body))
        except (TypeError, ValueError, RecursionError):
            return None

    def _redacted(self, encoded: bytes) -> bytes | None:
        try:
            return self._redact(encoded)
        except (TypeError, ValueError, RecursionError):
            return None


def _header(header: Fields) -> bytes:
    try:
        return _encode(header)
    except (TypeError, ValueError, RecursionError):
        return b"{}"
