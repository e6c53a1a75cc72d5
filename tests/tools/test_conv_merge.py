"""`conv_merge` as a model meets it: its answer is JSON in every case, and within its room."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tertulia.errors import BusyError, MergeConflictError
from tertulia.policy.limits import Limits
from tertulia.protocol.storage import HeadersOnly
from tertulia.tools.conv_merge import ConvMerge, MergeMode, MergeReport
from tertulia.tools.tool import CallContext, Result
from tests.tools.calling import context

FILE = {"path": "a.txt", "status": "added", "added": 1, "removed": 0}


class Children:
    """Merges as a test says."""

    def __init__(self, outcome: MergeReport | Exception) -> None:
        self.outcome = outcome
        self.merged: list[tuple[str, MergeMode]] = []

    def check(self, call: CallContext, conversation_id: str) -> None:
        raise BusyError(f"{conversation_id} works")

    async def merge(self, call: CallContext, conversation_id: str, mode: MergeMode) -> MergeReport:
        self.merged.append((conversation_id, mode))
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def within(most: int | None) -> CallContext:
    call = context()
    return replace(call, rights=replace(call.rights, limits=replace(Limits(), max_output_bytes=most)))


async def run(outcome: MergeReport | Exception, most: int | None = None, **arguments: Any) -> tuple[Result, Children]:
    children = Children(outcome)
    result = await ConvMerge(children).run({"conversation_id": "child", **arguments}, within(most))
    assert isinstance(result, Result)
    return result, children


async def test_an_absent_mode_changes_files_only() -> None:
    report = MergeReport({"merged": True, "files": [FILE]}, HeadersOnly())
    for arguments, mode in (({}, "apply"), ({"mode": None}, "apply"), ({"mode": "commit"}, "commit")):
        result, children = await run(report, **arguments)
        assert children.merged == [("child", mode)]
        assert json.loads(result.text) == {"ok": True, "merged": True, "files": [FILE]}
        assert (result.success, result.storage) == (True, HeadersOnly())


async def test_what_is_refused_early_is_refused_by_the_check() -> None:
    with pytest.raises(BusyError, match="child works"):
        ConvMerge(Children(BusyError(""))).check({"conversation_id": "child"}, context())


async def test_more_files_than_there_is_room_for_are_counted() -> None:
    result, _ = await run(MergeReport({"merged": True, "files": [FILE] * 500}), 2_000)
    answer = json.loads(result.text)
    assert len(result.text) <= 2_000
    assert 10 < len(answer["files"]) == 500 - answer["omitted"]


async def test_a_conflict_lists_its_paths_within_the_room() -> None:
    names = [f"content: file-{number}" for number in range(500)]
    result, _ = await run(MergeConflictError("both sides", conflicts=names), 2_000)
    answer = json.loads(result.text)
    assert (result.success, answer["ok"], answer["code"], answer["reason"]) == (
        False,
        False,
        "merge_conflict",
        "both sides",
    )
    assert len(answer["conflicts"]) + answer["omitted"] == 500
    assert len(result.text) <= 2_000
