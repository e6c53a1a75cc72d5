"""What is said at the door for programs of agents: four lines, of a client and of a session in turn."""

from __future__ import annotations

from typing import Any

import msgspec

MAX_LINE = 4 * 1024 * 1024
"""A page of 512 KiB, however it is escaped."""


class CallbackHello(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line. Printing it shows no token."""

    token: str

    def __repr__(self) -> str:
        return "Knock(…)"


class CallbackCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The second one of a client."""

    tool: str
    arguments: Any = None


class CallbackReply(msgspec.Struct, frozen=True):
    """What a client hears: an answer, or an error with its code and sentence."""

    result: Any = None
    error: dict[str, str] | None = None
