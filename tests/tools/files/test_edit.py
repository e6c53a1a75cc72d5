"""Issue 24: `edit` and `write` change files by the engine of the patch tool, and keep what they do not change."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import tertulia
from tertulia.protocol.tool_events import PatchApplyBegin, PatchApplyEnd
from tertulia.testing import RecordedEvents, ScriptedModel, call, say
from tertulia.tools.patch.read_files import MAX_FILES, ReadFiles
from tests.tools.workbench import allow, code, deny, workbench


def edits(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"old": old, "new": new} for old, new in pairs]


async def test_edits_of_a_file_are_made_one_after_another_and_told_like_a_patch(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        file = bench.root / "run.sh"
        file.write_text("one\ntwo\nthree\n")
        file.chmod(0o754)
        viewed = await bench.call("view", {"path": "run.sh"})
        assert viewed.text == "     1\tone\n     2\ttwo\n     3\tthree"
        done = await bench.call("edit", {"path": "run.sh", "edits": edits(("two", "2"), ("2\nthree", "2\n3\n4"))})
        assert (done.success, done.text) == (True, "Success. Updated the following files:\nM run.sh")
        assert (file.read_text(), file.stat().st_mode & 0o777) == ("one\n2\n3\n4\n", 0o754)
        begin, end = (event for event in bench.events if isinstance(event, PatchApplyBegin | PatchApplyEnd))
        assert isinstance(begin, PatchApplyBegin)
        assert begin.changes == [{"kind": "update", "path": "run.sh", "added": 3, "removed": 2}]
        assert isinstance(end, PatchApplyEnd)
        assert end.success
        # What it wrote itself it knows: the next edit needs no view.
        again = await bench.call("edit", {"path": str(file), "edits": edits(("one\n", "1\n"))})
        assert again.success, again.text


EDITED: list[tuple[bytes, str, str, bytes]] = [
    (b"a\r\nb\r\nc\r\n", "a\nb\n", "a\nx\nb\n", b"a\r\nx\r\nb\r\nc\r\n"),
    (b"a\r\nb\nc\r\n", "b\nc", "B\nc", b"a\r\nB\nc\r\n"),
    (b"a\nb", "b", "c", b"a\nc"),
    (b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n"),
    (b"\xff\xfea\0\r\0\n\0", "a", "\u00e4\nb", "\ufeff\u00e4\r\nb\r\n".encode("utf-16-le")),
    ("\ufeffa\r\nb\r\n".encode("utf-32-le"), "a", "x\ny", "\ufeffx\r\ny\r\nb\r\n".encode("utf-32-le")),
    (b"caf\xe9 one\n", "one", "two", b"caf\xe9 two\n"),
    (b"ab\r\n", "ab", "a\nb", b"a\r\nb\r\n"),
    (b"a\r\nb\r\n", "a\nb", "ab", b"ab\r\n"),
]


async def test_line_ends_encoding_and_the_end_of_the_last_line_are_kept(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        for number, (before, old, new, after) in enumerate(EDITED):
            (bench.root / "f").write_bytes(before)
            done = await bench.call("edit", {"path": "f", "edits": edits((old, new))}, conversation=str(number))
            assert done.success, done.text
            assert (bench.root / "f").read_bytes() == after


WRITTEN: list[tuple[Any, Any, Any]] = [
    (None, "new", b"new"),
    (b"a\r\nb\r\n", "x\ny", b"x\r\ny\r\n"),
    (b"\xef\xbb\xbfa\n", "b\n", b"\xef\xbb\xbfb\n"),
    (b"\0\1\2", "text\n", b"text\n"),
    (b"", "x", b"x"),
]


async def test_a_file_that_is_written_has_the_form_of_the_one_it_replaces(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        for before, content, after in WRITTEN:
            (bench.root / "f").unlink(missing_ok=True)
            if before is not None:
                (bench.root / "f").write_bytes(before)
            done = await bench.call("write", {"path": "f", "content": content}, conversation=repr(before))
            assert done.success, done.text
            assert (bench.root / "f").read_bytes() == after


FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("edit", {"path": "f", "edits": edits(("nope", "x"))}, "edit 1 of 1: its old text is not in the file"),
    ("edit", {"path": "f", "edits": edits(("  two", "x"))}, "line 2 has its first line"),
    (
        "edit",
        {"path": "f", "edits": edits(("one", "1"), ("o", "x"))},
        "edit 2 of 2: its old text is in the file more",
    ),
    ("edit", {"path": "f", "edits": edits(("", "x"))}, "is empty; write makes a new file"),
    ("edit", {"path": "f", "edits": edits(("one", "one"))}, "are the same"),
    ("edit", {"path": "f", "edits": edits(("one", "a\0b"))}, "has a NUL"),
    ("edit", {"path": "f", "edits": []}, "edits"),
    ("edit", {"path": "f", "edits": edits(*[("one", "x")] * 201)}, "are too many"),
    ("edit", {"path": "none", "edits": edits(("one", "x"))}, "there is no file none"),
    ("edit", {"path": "bin", "edits": edits(("one", "x"))}, "is a binary file"),
    ("edit", {"path": "link", "edits": edits(("one", "x"))}, "it is a symbolic link"),
    ("edit", {"path": "pipe", "edits": edits(("one", "x"))}, "it is not a regular file"),
    ("edit", {"path": "../outside/f", "edits": edits(("one", "x"))}, "leaves the working directory"),
    ("edit", {"path": "/etc/passwd", "edits": edits(("root", "x"))}, "must be relative"),
    ("edit", {"path": "a\nb", "edits": edits(("one", "x"))}, "control character"),
    ("write", {"path": ".git/config", "content": "x"}, "is protected from changes"),
    ("write", {"path": "sub/.GIT/hooks/x", "content": "x"}, "is protected from changes"),
    ("write", {"path": "folder", "content": "x"}, "it is a directory"),
]


async def test_what_cannot_be_changed_is_refused_and_nothing_is(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        (bench.root / "f").write_text("one\ntwo\nfour\n")
        (bench.root / "bin").write_bytes(b"one\0")
        (bench.root / "link").symlink_to("f")
        (bench.root / "folder").mkdir()
        os.mkfifo(bench.root / "pipe")
        before = sorted(path.name for path in bench.root.iterdir())
        for tool, arguments, reason in FAULTS:
            result = await bench.call(tool, arguments)
            assert not result.success
            assert reason in result.text, result.text
            assert (bench.root / "f").read_text() == "one\ntwo\nfour\n"
            assert sorted(path.name for path in bench.root.iterdir()) == before


async def test_a_file_that_changed_since_it_was_read_is_refused_with_the_new_lines(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        file = bench.root / "f"
        file.write_text("one\ntwo\nthree\n")
        await bench.call("view", {"path": "f"})
        file.write_text("one\n2\n2b\nthree\n")
        change = {"path": "f", "edits": edits(("three", "3"))}
        refused = await bench.call("edit", change)
        assert not refused.success
        assert "f has changed since you read it; nothing was changed. Lines 2 to 3 are new" in refused.text
        assert "2\t2\n3\t2b\n" in refused.text
        assert file.read_text() == "one\n2\n2b\nthree\n"
        # Another conversation has not read it, and this one has now.
        assert (await bench.call("edit", {"path": "f", "edits": edits(("one", "1"))}, conversation="other")).success
        stale = await bench.call("write", {"path": "f", "content": "x\n"})
        assert "Lines 1 to 1 are new (in place of 1):\n1\t1\n" in stale.text
        assert (await bench.call("edit", change)).success
        file.unlink()
        gone = await bench.call("edit", change)
        assert "There is no such file any more." in gone.text
        file.write_text("x\n" * 100)
        await bench.call("view", {"path": "f"})
        file.write_text("y\n" * 100)
        for _ in range(2):
            assert "View it again." in (await bench.call("edit", {"path": "f", "edits": edits(("y", "z"))})).text


async def test_a_person_is_asked_with_the_whole_difference_and_a_no_changes_nothing(tmp_path: Path) -> None:
    async with workbench(tmp_path, deny) as bench:
        bench.with_rights("untrusted")
        lines = [f"line {number}" for number in range(30)]
        (bench.root / "f").write_text("\n".join(lines) + "\n")
        change = {"path": "f", "edits": edits(("line 3\n", "three\n"), ("line 20", "twenty"))}
        assert code(await bench.call("edit", change)) == "approval_denied"
        assert "line 20" in (bench.root / "f").read_text()
        detail = bench.asked[0].detail
        for line in ("*** Update File: f", "-line 3", "+three", " line 2", "-line 20", "+twenty", " line 23"):
            assert f"{line}\n" in detail, detail
        assert "line 12" not in detail
        assert [(one.path, one.kind, one.added, one.removed) for one in bench.asked[0].files] == [("f", "update", 2, 2)]
        bench.answer = allow
        assert (await bench.call("edit", change)).success
        assert (await bench.call("write", {"path": "deep/new", "content": "x\n"})).success
        assert "*** Add File: deep/new\n" in bench.asked[2].detail


async def test_read_only_rights_keep_both_from_writing(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        (bench.root / "f").write_text("one\n")
        bench.with_rights("on-request", sandbox="read_only")
        assert not (await bench.call("edit", {"path": "f", "edits": edits(("one", "1"))})).success
        assert not (await bench.call("write", {"path": "g", "content": "x"})).success
        assert (bench.root / "f").read_text() == "one\n"
        assert not (bench.root / "g").exists()


async def test_what_was_read_is_remembered_within_bounds_and_forgotten_with_the_conversation() -> None:
    read = ReadFiles()
    one: Any = "conversation"
    for number in range(MAX_FILES + 1):
        read.note(one, f"/f{number}", b"x")
    assert read.changed(one, "/f0", b"y") is None
    assert read.changed(one, "/f1", b"y") is not None
    read.note(one, "/unknown", b"x", only_known=True)
    assert read.changed(one, "/unknown", b"y") is None
    await read.forget(one)
    assert read.changed(one, "/f2", b"y") is None


PROVIDER_ACTS: list[tuple[Any, Any]] = [
    ({"command": "create", "file_text": "new\n"}, "new\n"),
    ({"command": "str_replace", "old_str": "two\n", "new_str": "2\n"}, "one\n2\n"),
    ({"command": "str_replace", "old_str": "two\n"}, "one\n"),
    ({"command": "insert", "insert_line": 0, "insert_text": "zero"}, "zero\none\ntwo\n"),
    ({"command": "insert", "insert_line": 2, "new_str": "three\n"}, "one\ntwo\nthree\n"),
]


async def test_the_editor_of_a_provider_does_what_ours_do(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        for arguments, after in PROVIDER_ACTS:
            (bench.root / "f").write_text("one\ntwo\n")
            done = await bench.call(
                "str_replace_based_edit_tool", {"path": str(bench.root / "f"), **arguments}, conversation=after
            )
            assert done.success, done.text
            assert (bench.root / "f").read_text() == after


PROVIDER_FAULTS: list[tuple[Any, Any]] = [
    ({"command": "view", "view_range": [2, -1]}, "     2\ttwo\n[lines 2 to 2 of 2]"),
    ({"command": "view", "view_range": [2, 1]}, "the first not after the last"),
    ({"command": "undo_edit"}, "there is no command 'undo_edit', only view"),
    ({"command": "create"}, "file_text is missing"),
    ({"command": "insert", "insert_line": 9, "insert_text": "x"}, "f has 2 lines, there is no line 9"),
]


async def test_the_editor_of_a_provider_says_what_is_wrong(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        for arguments, text in PROVIDER_FAULTS:
            (bench.root / "f").write_text("one\ntwo\n")
            result = await bench.call("str_replace_based_edit_tool", {"path": "f", **arguments})
            assert text in result.text
            assert (bench.root / "f").read_text() == "one\ntwo\n"


async def test_a_command_line_is_run_by_the_users_shell(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        done = await bench.call("bash", {"command": "echo $((6 * 7)) | tr 4 f"})
        assert done.success, done.text
        assert done.text.endswith("Output:\nf2\n")
        assert (await bench.call("bash", {"restart": True})).text.startswith("There is nothing to restart")
        assert "command is missing" in (await bench.call("bash", {})).text


async def test_the_profile_of_a_conversation_decides_what_its_shell_takes(tmp_path: Path) -> None:
    """Issue 24: a command line for the one, a list of words for the other; a child may have another profile."""
    calls = say("", call("shell", {"command": "echo $((6 * 7))"}), call("shell", {"command": ["echo", "$HOME"]}))
    create = call("conv_create", {"user_instruction": "go", "tool_profile": "patch"})
    model = ScriptedModel([calls, say("", create), calls, "done", "done"])
    settings = tertulia.Settings(model=model, cwd=str(tmp_path), tool_profile="editor")
    async with tertulia.Session.start(settings) as session, RecordedEvents(session) as events:
        await session.root.message("go")
    ends = [event.data for event in events.seen if isinstance(event.data, tertulia.ToolCallEnd)]
    ends = [end for end in ends if end.name == "shell"]
    assert [end.success for end in ends] == [True, True, False, True]
    assert ends[0].output.endswith("Output:\n42\n")
    profiles = [request.tools[1] for request in model.requests]
    assert profiles == ["view", "view", "apply_patch", "apply_patch", "view"]
