"""The tool `apply_patch`, on a real directory."""

from __future__ import annotations

import subprocess
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tertulia.errors import ApprovalDeniedError
from tertulia.protocol.events import EventData
from tertulia.protocol.tool_events import ApprovalFile, Decider, PatchApplyBegin, PatchApplyEnd
from tertulia.tools.dispatch import Dispatch, check_call
from tertulia.tools.patch.apply_patch import ApplyPatch
from tertulia.tools.patch.engine import DISK_COMMAND, PatchEngine
from tertulia.tools.registry import ToolRegistry
from tertulia.tools.tool import CallContext, Result
from tests.tools.calling import call, context
from tests.tools.patching import patch, snapshot


class Bench:
    """The tool with a directory, a runner that does not confine, and somebody who says yes."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.asked: list[tuple[str, tuple[ApprovalFile, ...]]] = []
        self.runs: list[tuple[str, ...]] = []
        self.events: list[EventData] = []
        self.refuse: str | None = None
        self.meanwhile: Callable[[], object] = lambda: None
        self.said: bytes | None = None

    async def confined(self, argv: tuple[str, ...], stdin: bytes, call: CallContext) -> bytes:
        self.runs.append(argv)
        if self.said is not None:
            return self.said
        return subprocess.run(argv, input=stdin, cwd=self.place, capture_output=True, check=True).stdout

    async def approve(self, text: str, files: tuple[ApprovalFile, ...], call: CallContext) -> Decider:
        self.asked.append((text, files))
        self.meanwhile()
        if self.refuse is not None:
            raise ApprovalDeniedError(self.refuse)
        return Decider("policy", "on-request")

    async def answer(self, text: str) -> Result:
        tool = ApplyPatch(PatchEngine(self.confined, self.approve, lambda paths, call: None))
        checked = check_call(
            call("apply_patch", text, kind="custom"),
            ToolRegistry([tool]),
            {"apply_patch"},
            lambda _: context(self.events.append),
        )
        dispatch = Dispatch([checked], lambda _: context(self.events.append), began=str, ended=str)
        await dispatch.run()
        return dispatch.outputs[0].result


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "a").write_text("1\n")
    (tmp_path / "b").write_text("")
    (tmp_path / "c").write_text("2\n")
    return Bench(tmp_path)


PATCH = patch(
    *("*** Delete File: c", "*** Add File: d/n", "+new", "*** Update File: a", "-1", "+one"),
    *("*** Update File: b", "*** Move to: e", "+x"),
)


async def test_a_patch_is_applied_and_the_model_is_told_what_changed(bench: Bench) -> None:
    result = await bench.answer(PATCH)
    assert result == Result("Success. Updated the following files:\nA d/n\nM a\nM e\nD c")
    assert {name: text for name, (_, text) in snapshot(bench.place).items()} == {
        "a": b"one\n",
        "d": None,
        "d/n": b"new\n",
        "e": b"x\n",
    }


async def test_it_runs_confined_by_path_and_is_asked_about_with_its_plan(bench: Bench) -> None:
    await bench.answer(PATCH)
    assert bench.runs == [DISK_COMMAND, DISK_COMMAND]
    assert DISK_COMMAND[1] == "-I"
    [(text, files)] = bench.asked
    assert text == PATCH
    assert [(file.kind, file.path) for file in files] == [
        ("delete", "c"),
        ("add", "d/n"),
        ("update", "a"),
        ("move", "b → e"),
    ]


async def test_its_beginning_and_its_end_are_told(bench: Bench) -> None:
    """UI.md 7.14: with what the patch says about the length of its changes."""
    result = await bench.answer(PATCH)
    begin, end = bench.events
    assert isinstance(begin, PatchApplyBegin)
    assert begin.changes == [
        {"kind": "delete", "path": "c"},
        {"kind": "add", "path": "d/n", "added": 1},
        {"kind": "update", "path": "a", "added": 1, "removed": 1},
        {"kind": "update", "path": "b", "move_to": "e", "added": 1, "removed": 0},
    ]
    assert end == PatchApplyEnd(begin.call_id, True, result.text, Decider("policy", "on-request"))


async def refused(bench: Bench, text: str, code: str) -> str:
    """Nothing was changed, and whatever began has ended; the reason."""
    before = snapshot(bench.place)
    result = await bench.answer(text)
    assert snapshot(bench.place) == before
    assert not result.success
    assert [type(event) for event in bench.events] in ([], [PatchApplyBegin, PatchApplyEnd])
    assert not any(isinstance(event, PatchApplyEnd) and event.success for event in bench.events)
    answer = msgspec.json.decode(result.text)
    assert (answer["ok"], answer["code"]) == (False, code)
    return answer["reason"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hello", "invalid patch: the first line"),
        (patch("*** Update File: a"), "invalid hunk at line 2, "),
        (patch("*** Add File: ../x", "+x"), "invalid hunk at line 2, the path '../x' leaves"),
        (patch("*** Add File: x", "+x", "*** Add File: X", "+x"), "invalid patch: 'x' and 'X' are the same"),
    ],
)
async def test_what_is_no_patch_is_refused_before_anything_runs(bench: Bench, text: str, reason: str) -> None:
    """A23."""
    assert (await refused(bench, text, "invalid_params")).startswith(reason)
    assert bench.runs == []
    assert bench.asked == []
    assert bench.events == []


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["*** Add File: n", "+x", "*** Update File: a", "-2"], "Failed to find expected lines in a:\n2"),
        (["*** Delete File: a", "*** Delete File: x"], "Failed to read file to delete x"),
        (["*** Delete File: a", "*** Update File: link", "-2"], "link: it is a symbolic link; nothing was changed"),
    ],
)
async def test_what_does_not_fit_is_refused_before_anybody_is_asked(
    bench: Bench, lines: list[str], reason: str
) -> None:
    """A23: rejected whole."""
    (bench.place / "link").symlink_to("c")
    assert (await refused(bench, patch(*lines), "invalid_params")).startswith(reason)
    assert bench.asked == []


async def test_a_denied_patch_changes_nothing(bench: Bench) -> None:
    bench.refuse = "the user said no"
    assert await refused(bench, PATCH, "approval_denied") == "the user said no"
    assert len(bench.runs) == 1


async def test_a_file_that_changes_while_it_is_asked_about_is_not_overwritten(bench: Bench) -> None:
    bench.meanwhile = lambda: (bench.place / "a").write_text("mine\n")
    result = await bench.answer(PATCH)
    assert "a: it has changed since it was read; nothing was changed" in result.text
    assert (bench.place / "a").read_text() == "mine\n"
    assert sorted(snapshot(bench.place)) == ["a", "b", "c"]


MEANWHILE: list[tuple[Callable[[Path], object], str]] = [
    (lambda a: a.write_text("mine\nand mine\n"), "Lines 1 to 2 are new (in place of 1):\n1\tmine\n2\tand mine\n"),
    (lambda a: a.write_text("1\n" + "more\n" * 100), "View it again."),
    (lambda a: a.write_text(""), "1 line after line 0 were removed."),
    (lambda a: a.unlink(), "There is no such file any more."),
]


async def test_the_refusal_of_such_a_file_has_its_new_lines(bench: Bench) -> None:
    """Issue 24 (4): the model need not look at it again."""
    for change, lines in MEANWHILE:
        (bench.place / "a").write_text("1\n")
        bench.meanwhile = partial(change, bench.place / "a")
        result = await bench.answer(PATCH)
        assert not result.success
        assert lines in msgspec.json.decode(result.text)["reason"]
        assert (bench.place / "c").read_text() == "2\n"


async def test_a_runner_that_says_something_else_is_an_error_of_the_sandbox(bench: Bench) -> None:
    bench.said = b"Traceback: no python here"
    assert "no python here" in await refused(bench, PATCH, "sandbox_error")


async def test_a_patch_that_could_not_be_undone_says_so(bench: Bench) -> None:
    bench.said = b'{"ok": false, "path": "a", "reason": "Input/output error", "undone": false}'
    reason = await refused(bench, PATCH, "sandbox_error")
    assert reason.endswith("could not be undone: look at its files (a: Input/output error)")


async def test_an_empty_patch_modifies_nothing(bench: Bench) -> None:
    result = await bench.answer(patch())
    assert result == Result("No files were modified.", success=False)
    assert bench.runs == []


def test_the_model_is_told_the_grammar() -> None:
    tool = ApplyPatch(PatchEngine(_never, _never, _never))
    assert (tool.spec.name, tool.spec.kind) == ("apply_patch", "custom")
    assert tool.spec.grammar is not None
    for marker in ("*** Begin Patch", "*** Move to: ", "*** End of File", "*** End Patch"):
        assert marker in tool.spec.grammar
    assert not tool.read_only
    assert not tool.parallel_safe


def _never(*_: Any) -> Awaitable[Any]:
    raise AssertionError
