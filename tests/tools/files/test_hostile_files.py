"""Issue 24: what a hostile workspace, model or neighbour tries against view, edit, write, grep and glob; both tiers."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.events.clock import SystemClock
from tertulia.protocol.tool_events import ApprovalRequest
from tertulia.sandbox.masks.guarded_paths import GuardedPaths, Mask
from tertulia.sandbox.sandbox import Sandbox
from tertulia.testing import RecordedEvents, ScriptedModel, call, say
from tests.deadlines import HANG_S
from tests.sandbox.confined import need
from tests.tools.workbench import Workbench, allow, workbench

SECRET = "a secret of the user"
MASKED = ("secret", "key.txt")


def hostile(root: Path, outside: Path) -> None:
    """Ways out of the workspace and into what is masked, and files that are none."""
    (root / "secret").mkdir()
    for path in (root / "secret" / "inside", root / "key.txt", outside / "plain"):
        path.write_text(f"{SECRET}\n")
    (root / "sub").mkdir()
    for name, target in (("out", outside), ("masked", "secret"), ("key", "key.txt"), ("proc", "/proc/self/root")):
        (root / name).symlink_to(target)
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(root / "socket"))


async def hostile_bench(tier: Any, folder: Path, act: Callable[[Workbench], Any]) -> None:
    need(tier)
    workspace = Path(os.path.realpath(folder)) / "workspace"
    guarded = GuardedPaths(tuple(Mask(str(workspace / name), name, "a secret of the test") for name in MASKED))
    async with workbench(folder, allow, guarded=guarded, runner=Sandbox(tier=tier, clock=SystemClock())) as bench:
        hostile(bench.root, bench.outside)
        await act(bench)


def spellings(bench: Workbench) -> list[str]:
    """Of places that no tool may show or change."""
    return [
        *(
            "secret",
            "secret/inside",
            "./secret/./inside",
            "sub/../secret/inside",
            "key.txt",
            "key.txt/",
            "masked/inside",
        ),
        *("key", "out/plain", "../outside/plain", f"{bench.root}/../outside/plain", "/etc/passwd", "/dev/zero", "pipe"),
        *("proc/etc/passwd", f"/proc/self/root{bench.root}/key.txt", "/proc/self/cwd/key.txt", "//key.txt", "socket"),
    ]


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
async def test_no_spelling_leads_to_what_is_masked_or_outside(tmp_path: Path, tier: str) -> None:
    async def act(bench: Workbench) -> None:
        for path in spellings(bench):
            tries = [
                await bench.call("view", {"path": path}),
                await bench.call("grep", {"pattern": ".", "path": path}),
                await bench.call("glob", {"pattern": "*", "path": path}),
                await bench.call("write", {"path": path, "content": "x"}),
                await bench.call("edit", {"path": path, "edits": [{"old": "secret", "new": "x"}]}),
                await bench.call("str_replace_based_edit_tool", {"command": "view", "path": path}),
            ]
            assert [one.text for one in tries if one.success or SECRET in one.text] == []
        for tool, arguments in (("grep", {"pattern": "secret"}), ("glob", {"pattern": "*"}), ("view", {"path": "."})):
            found = await bench.call(tool, arguments)
            assert found.success, found.text
            assert not {"inside", "key.txt", SECRET} & {*found.text.replace("\n", " ").split(" "), found.text}
        assert [path.read_text() for path in sorted(bench.outside.iterdir())] == [f"{SECRET}\n"]
        assert (bench.root / "key.txt").read_text() == f"{SECRET}\n"

    await hostile_bench(tier, tmp_path, act)


PROTECTED = (
    *(".git/config", ".Git/config", ".git./config", ".git /config", "git~1/config", ".git::$INDEX_ALLOCATION/config"),
    *(
        ".g\u200cit/config",
        "\uff0egit/config",
        "sub/.git/config",
        "./.git/config",
        ".codex/x",
        ".tertulia/x",
        ".mcp.json",
    ),
)


async def test_protected_names_are_refused_in_every_spelling(tmp_path: Path) -> None:
    async with workbench(tmp_path, allow) as bench:
        for path in PROTECTED:
            result = await bench.call("write", {"path": path, "content": "x"})
            assert "protected from changes" in result.text, result.text
        assert list(bench.root.iterdir()) == []


async def test_names_and_link_targets_that_are_no_text_are_shown(tmp_path: Path) -> None:
    async def act(bench: Workbench) -> None:
        here = os.fsencode(bench.root)
        os.mkdir(here + b"/caf\xe9")
        os.symlink(b"caf\xe9\n", here + b"/link")
        (bench.root / "esc\x1b[31m\nname").touch()
        listed = await bench.call("view", {"path": "."})
        for name in ("caf\u27e8U+DCE9\u27e9/", "esc\u27e8U+001B\u27e9[31m\u27e8U+000A\u27e9name"):
            assert f"  {name}\n" in listed.text, listed.text
        refused = await bench.call("view", {"path": "link"})
        assert "link is a symbolic link to caf\ufffd" in refused.text

    await hostile_bench("bubblewrap", tmp_path, act)


async def test_a_hole_without_an_end_is_taken_for_a_binary_file_at_once(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        with (bench.root / "hole").open("wb") as file:
            file.write(b"text\n")
            file.truncate(1 << 40)
        for arguments in ({}, {"line": 2}, {"line": 10**12}):
            viewed = await bench.call("view", {"path": "hole", **arguments}, timeout_s=HANG_S)
            assert "hole is a binary file of 1,099,511,627,776 bytes" in viewed.text, viewed.text
        assert (await bench.call("grep", {"pattern": "x"})).text == "[nothing matches]"
        assert "more than 16,777,216 bytes" in (await bench.call("write", {"path": "hole", "content": "x"})).text


def in_place(root: Path) -> None:
    """Another content, as long as the first, with the same time."""
    file = root / "sub" / "f"
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    file.write_text("ONE\n")
    os.utime(file, ns=times)


def another_directory(root: Path) -> None:
    (root / "sub").rename(root / "was")
    (root / "sub").symlink_to("../outside")


def a_link(root: Path) -> None:
    (root / "sub" / "f").unlink()
    (root / "sub" / "f").symlink_to("../../outside/f")


def a_second_name(root: Path) -> None:
    os.link(root / "sub" / "f", root / "same")


@pytest.mark.parametrize("swap", [in_place, another_directory, a_link, a_second_name])
@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
async def test_what_is_swapped_while_a_person_decides_is_not_written(
    tmp_path: Path, tier: Any, swap: Callable[[Path], None]
) -> None:
    need(tier)
    async with workbench(tmp_path, runner=Sandbox(tier=tier, clock=SystemClock())) as bench:
        bench.with_rights("untrusted")

        def swapped(request: ApprovalRequest) -> dict[str, Any]:
            swap(bench.root)
            return {"decision": "allow"}

        (bench.root / "sub").mkdir()
        for folder in (bench.root / "sub", bench.outside):
            (folder / "f").write_text("one\n")
        bench.answer = swapped
        with bench.approvals.attended():
            result = await bench.call("edit", {"path": "sub/f", "edits": [{"old": "one", "new": "two"}]})
        assert not result.success
        assert "nothing was changed" in result.text
        assert (bench.outside / "f").read_text() == "one\n"
        assert {path.name for path in bench.root.rglob("*")} <= {"sub", "f", "was", "same"}
        assert "two" not in "".join(path.read_text() for path in bench.root.rglob("f"))


SHOWN: list[tuple[bytes, str, list[str]]] = [
    (b"a\nb\n", "A\nb\r\n", ["-a", "-b", "+A", "+b\u27e8U+000D\u27e9"]),
    (b"a\r\nb\r\n", "A\nb\n", ["-a", "+A", " b"]),
    (b"caf\xe9\n", "caf\ufffd\n", ["-caf\\xe9", "+caf\ufffd"]),
    (b"a\nb", "A\nb\n", ["-a", "+A", " b", "@@ the last line gets its end"]),
    (b"a\n", "\u202e\x1b[2J\n", ["-a", "+\u27e8U+202E\u27e9\u27e8U+001B\u27e9[2J"]),
]


async def test_an_approver_sees_line_ends_odd_bytes_and_escapes_that_change(tmp_path: Path) -> None:
    async with workbench(tmp_path, allow) as bench:
        bench.with_rights("untrusted")
        for number, (before, content, lines) in enumerate(SHOWN):
            (bench.root / "f\u202egpj").write_bytes(before)
            change = {"path": "f\u202egpj", "content": content}
            done = await bench.call("write", change, conversation=str(number))
            assert done.success, done.text
            shown = [line.removeprefix("\u2502 ") for line in bench.asked[-1].detail.split("\n")]
            assert shown[2] == "*** Update File: f\u27e8U+202E\u27e9gpj"
            assert shown[4:-1] == lines


async def test_edits_of_one_file_in_one_answer_are_made_one_after_another(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\n")
    edits = [call("edit", {"path": "f", "edits": [{"old": str(n), "new": f"{n + 1}"}]}) for n in range(1, 6)]
    first = call("edit", {"path": "f", "edits": [{"old": "one", "new": "1"}]})
    model = ScriptedModel([say("", first, *edits), "done"])
    settings = tertulia.Settings(model=model, cwd=str(tmp_path), tool_profile="editor")
    async with tertulia.Session.start(settings) as session, RecordedEvents(session) as events:
        await session.root.message("go")
    ends = [event.data for event in events.seen if isinstance(event.data, tertulia.ToolCallEnd)]
    assert [end.output for end in ends if not end.success] == []
    assert (tmp_path / "f").read_text() == "6\n"


async def test_without_the_patch_tool_no_profile_has_a_tool_that_changes_files(tmp_path: Path) -> None:
    for profile in ("patch", "editor"):
        model = ScriptedModel([say("", call("write", {"path": "f", "content": "x"})), "done"])
        settings = tertulia.Settings(
            model=model, cwd=str(tmp_path), tool_profile=profile, include_apply_patch_tool=False
        )
        async with tertulia.Session.start(settings) as session:
            await session.root.message("go")
        offered = {*model.requests[0].tools}
        assert {"grep", "glob"} <= offered
        assert not offered & {"apply_patch", "edit", "write", "str_replace_based_edit_tool"}
    assert not (tmp_path / "f").exists()
