"""The messages on the callback socket: four lines of JSON, from the client and the session in turn."""

from __future__ import annotations

from typing import Any

import msgspec

MAX_LINE = 4 * 1024 * 1024
"""Bytes of a line: a page of 512 KiB, however it is escaped."""


class CallbackHello(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of a client. Its repr shows no token."""

    token: str

    def __repr__(self) -> str:
        return "CallbackHello(…)"


class CallbackCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The second line of a client: its call."""

    tool: str
    arguments: Any = None


class CallbackReply(msgspec.Struct, frozen=True):
    """A line to the client: a result, or an error with its code and message."""

    result: Any = None
    error: dict[str, str] | None = None
