"""The parameters of the operations `checkpoint/*`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta


class ListCheckpoints(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`checkpoint/list`: the checkpoints of the session's workspaces, the newest first."""

    conversation_id: str | None = None
    """Only those of this conversation, and of others that worked for it."""
    limit: Annotated[int, Meta(ge=1, le=2_000)] = 100


class DiffCheckpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`checkpoint/diff`: what the task of a checkpoint has changed, or what is different now."""

    id: str | None = None
    """The checkpoint; None: the last message of the conversation that changed something."""
    conversation_id: str | None = None
    """The conversation that it is about; None: the root."""
    to_now: bool = False
    """Whether it is compared with the files as they are now, not with those at the end of its task."""


class RestoreCheckpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`checkpoint/restore`: bring files back into the state of a checkpoint."""

    id: str | None = None
    """The checkpoint; None: that before the last message of the conversation that changed something."""
    since: Annotated[datetime, Meta(tz=True)] | None = None
    """A moment as RFC 3339, such as that of a message: back to before the first task of the conversation after it."""
    conversation_id: str | None = None
    """The conversation whose changes are undone; None: the one that the checkpoint belongs to, or the root."""
    paths: list[str] | None = None
    """Only these files, and those below these directories, relative to the workspace or absolute."""
    dry_run: bool = False
    """Only say what would be done."""
    force: bool = False
    """Restore files, too, that others have changed since or at the same time."""
