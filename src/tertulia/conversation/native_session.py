"""The session id of an executor for a conversation, and whether that session can be resumed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from tertulia.executors.json_output import read_native_id
from tertulia.protocol.ids import ItemId
from tertulia.protocol.items import NO_USAGE, Usage

STALE = -1
"""The revision of a history that is no longer what it was."""


class NativeSession(msgspec.Struct, frozen=True):
    """Can be resumed by the same agent, home and directory, as long as the history was only appended to."""

    native_id: str
    agent: str
    """The agent and where it keeps its sessions, see `identity_digest`."""
    cwd: str
    revision: int
    """The revision of the history."""
    total: Usage = NO_USAGE
    """What the session has cost by the agent's own count."""
    upto: ItemId = ItemId("")
    """The last item that there was when its last run ended: what users said later it does not know."""
    told: str = ""
    """What it was told beside the prompt, by digest."""

    def mismatch(self, agent: str, cwd: str, revision: int) -> str | None:
        """Why the agent cannot go on with it; None where it can."""
        if self.agent != agent:
            return "it is another executor, or has another home"
        if self.cwd != cwd:
            return "it works in another directory"
        return None if self.revision == revision else "the history was rewritten"

    def noted(self) -> dict[str, Any]:
        """The form that is recorded: without the revision, which counts rewrites in this process."""
        written: dict[str, Any] = msgspec.to_builtins(self)
        del written["revision"]
        return written


class RunMemory:
    """What the agent's own session holds of one run, as far as the agent has shown."""

    __slots__ = ("begun", "heard")

    def __init__(self) -> None:
        self.begun = False
        """Whether the session began: the agent has named its id."""
        self.heard = False
        """Whether the session holds the prompt: the agent has reported something of the run, or has confirmed that it
        stopped. One that was stopped before both may never have read it.
        """

    def confirm(self) -> None:
        """The agent has answered the request to stop."""
        self.heard = True


def identity_digest(identity: tuple[str, ...]) -> str:
    """An executor's identity, by digest: the words of a command are not stored."""
    return hashlib.sha256("\0".join(identity).encode("utf-8", "replace")).hexdigest()


def native_session_from(value: Mapping[str, Any] | None, revision: int) -> NativeSession | None:
    """Read a recorded one for a history at this revision; None where there is none or it makes no sense."""
    try:
        native_session = msgspec.convert({**(value or {}), "revision": revision}, NativeSession)
    except msgspec.ValidationError:
        return None
    # It will be an argument of a program.
    return native_session if read_native_id(native_session.native_id) else None
