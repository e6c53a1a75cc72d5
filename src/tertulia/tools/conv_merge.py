"""`conv_merge`: what a child has done in its worktree comes into the caller's workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

import msgspec

from tertulia.errors import MergeConflictError
from tertulia.protocol.storage import StoragePolicy
from tertulia.tools.conv import MERGE_SPEC
from tertulia.tools.output_truncation import MAX_OUTPUT_BYTES
from tertulia.tools.tool import CallContext, ChangingTool, Outcome, Result

MergeMode = Literal["apply", "commit"]
_encode = msgspec.json.Encoder().encode


class MergeReport(msgspec.Struct, frozen=True):
    """What came of a merge, as plain JSON."""

    fields: Mapping[str, Any]
    """The report; `files` in it is a list."""
    storage: StoragePolicy | None = None
    """That of the child, where it is stricter than the caller's own."""


class MergesChildren(Protocol):
    """The worktrees of the caller's children.

    Contract: `check` raises what `merge` would of what is known at once, and does not wait; `merge` does all of it or
    raises and leaves everything as it was.
    """

    def check(self, call: CallContext, conversation_id: str) -> None:
        """Refuse a conversation that is no child of the caller, has no worktree, or has a running task."""
        ...

    async def merge(self, call: CallContext, conversation_id: str, mode: MergeMode) -> MergeReport:
        """Merge it, after an approval where the policy wants one."""
        ...


class ConvMerge(ChangingTool):
    """The tool; `MergesChildren` knows what may be merged, and merges it."""

    __slots__ = ("_children",)
    spec = MERGE_SPEC

    def __init__(self, children: MergesChildren) -> None:
        self._children = children

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse a conversation that has nothing to merge."""
        self._children.check(call, arguments["conversation_id"])

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """Merge, and list the files; of a conflict, its paths."""
        mode = arguments.get("mode") or "apply"
        room = MAX_OUTPUT_BYTES if (most := call.rights.limits.max_output_bytes) is None else most
        try:
            report = await self._children.merge(call, arguments["conversation_id"], mode)
        except MergeConflictError as error:
            listed = {"ok": False, "code": error.code, "reason": error.message}
            conflicts = error.detail["conflicts"]
            assert isinstance(conflicts, list), "a conflict names its paths"
            return Result(_fitting(listed, "conflicts", conflicts, room), success=False)
        fields = {"ok": True, **{name: value for name, value in report.fields.items() if name != "files"}}
        return Result(_fitting(fields, "files", list(report.fields["files"]), room), storage=report.storage)


def _fitting(fields: Mapping[str, Any], name: str, entries: list[Any], room: int) -> str:
    """The object as JSON with as many of the entries as there is room for, and how many were left out."""
    used = len(_encode({**fields, name: [], "omitted": len(entries)}))
    shown = 0
    for entry in entries:
        used += len(_encode(entry)) + 1
        if used > room:
            break
        shown += 1
    omitted = {} if shown == len(entries) else {"omitted": len(entries) - shown}
    return _encode({**fields, name: entries[:shown], **omitted}).decode()
