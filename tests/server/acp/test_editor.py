"""What each side can do."""

from __future__ import annotations

import asyncio
import os
import pwd
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from acp import schema as s

from tertulia.server.acp.editor import (
    MAX_TIMEOUTS,
    PAUSE_S,
    EditorBuffers,
    EditorCapabilities,
    initialize_result,
    read_editor_capabilities,
)
from tertulia.server.jsonrpc.peer import Peer
from tertulia.server.jsonrpc.request_runner import MethodResult
from tertulia.testing import FakeClock, call, say
from tests.deadlines import HANG_S
from tests.sandbox.confined import need
from tests.server.acp_editor import EditorStage, editor_stage, scripted
from tests.server.client import MemorySink
from tests.tables import each_row


@each_row(
    ("able", "editor"),
    [
        (None, EditorCapabilities()),
        ({}, EditorCapabilities()),
        (
            {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True},
            EditorCapabilities(reads=True, writes=True),
        ),
        ({"fs": {"readTextFile": True}}, EditorCapabilities(reads=True)),
        ({"fs": {"writeTextFile": True}}, EditorCapabilities(writes=True)),
        ({"_meta": {"terminal_output": True}}, EditorCapabilities(terminal_output=True)),
        ({"_meta": {"terminal_output": "yes"}}, EditorCapabilities()),
        ({"elicitation": {"form": {}}}, EditorCapabilities(forms=True)),
        ({"elicitation": {"url": {}}}, EditorCapabilities(pages=True)),
    ],
)
def test_only_what_an_editor_says_is_used_of_it(able: Any, editor: EditorCapabilities) -> None:
    """Issue 10 (4)."""
    request = s.InitializeRequest.model_validate({"protocolVersion": 1, "clientCapabilities": able})
    assert read_editor_capabilities(request) == editor


def test_our_own_answer_is_in_the_schemas_words() -> None:
    """Issue 10 (4): nothing in it that the schema does not know."""
    result = initialize_result(EditorCapabilities(terminal_login=True))
    read = s.InitializeResponse.model_validate(result)
    assert read.model_dump(by_alias=True, exclude_unset=True, mode="json") == result


SECRET = "the user's secret"
PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-typed\n+patched\n*** End Patch"


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine two seconds are not enough to answer in, and then what is on the disk counts."""
    monkeypatch.setattr("tertulia.server.acp.editor.BUFFER_TIMEOUT_S", HANG_S)


@asynccontextmanager
async def editor(cwd: Path, *replies: Any, writes: bool = True, **settings: Any) -> AsyncIterator[EditorStage]:
    """With `a.py` open in it and one more line typed."""
    need("bubblewrap")
    (cwd / "a.py").write_text("saved\n")
    script = scripted(*replies, say("done", repeat=True), **settings)
    async with editor_stage(script, cwd, hello=False) as at:
        at.editor.buffers[str(cwd / "a.py")] = "saved\ntyped\n"
        await at.initialize(fs=s.FileSystemCapabilities(read_text_file=True, write_text_file=writes))
        yield at


async def heard(at: EditorStage, id: str, *answers: Any) -> tuple[str, str, str]:
    """(the session, how a call ended, what the model read)."""
    session = await at.new()
    at.editor.answers = list(answers)
    await at.prompt(session, "go")
    (end,) = [update for update in at.editor.of(session) if update.get("toolCallId") == id and "rawOutput" in update]
    entries = at.session(session).parts.conversations.root.history.snapshot()
    (output,) = [item.text for item in entries if getattr(item, "call_id", None) == id and hasattr(item, "success")]
    return session, end["status"], output


async def test_the_model_reads_what_is_typed_and_not_saved(tmp_path: Path) -> None:
    """Issue 10 (4): editor fs when offered; the call shows the file and the line."""
    async with editor(tmp_path, call("read_file", {"path": "a.py", "line": 2}, "c1")) as at:
        session, status, output = await heard(at, "c1")
        assert status == "completed"
        assert output == "a.py, as in the editor, with changes that are not saved: lines 2 to 2 of 2\ntyped"
        shown = at.editor.call(session, "c1")
        assert (shown["title"], shown["kind"]) == ("Read a.py", "read")
        assert shown["locations"] == [{"path": str(tmp_path / "a.py"), "line": 2}]
        assert (tmp_path / "a.py").read_text() == "saved\n"


async def test_without_the_capability_there_is_no_such_tool_and_nothing_is_asked(tmp_path: Path) -> None:
    """Issue 10 (4), X-69: capability flags; only what an editor says is used of it."""
    async with editor_stage(scripted("hi"), tmp_path, hello=False) as at:
        await at.initialize(fs=s.FileSystemCapabilities(write_text_file=True))
        session = await at.new()
        assert "read_file" not in {tool.name for tool in at.session(session).root.tools()}
    async with editor(tmp_path, "hi") as at:
        session = await at.new()
        assert "read_file" in {tool.name for tool in at.session(session).root.tools()}
        assert not at.editor.files


async def test_a_patch_reaches_what_is_typed_when_a_person_lets_it(tmp_path: Path) -> None:
    """Issue 10 (4): writing through the editor leaves the sandbox, so it is asked for as such."""
    async with editor(tmp_path, call("apply_patch", PATCH, "c1")) as at:
        _, status, output = await heard(at, "c1", "once")
        assert status == "completed", output
        assert "outside the sandbox" in at.editor.asked[0]["call"]["title"]
        assert ("write", str(tmp_path / "a.py")) in at.editor.files
        assert (tmp_path / "a.py").read_text() == "saved\npatched\n"


@pytest.mark.parametrize(
    ("settings", "answers"),
    [
        ({}, ["reject"]),
        ({"approval_policy": "never"}, []),
        ({"sandbox": "read_only"}, ["once"]),
        ({"writes": False}, ["once"]),
    ],
)
async def test_what_is_typed_stays_as_it_is_where_nobody_lets_it_be_changed(
    tmp_path: Path, settings: Any, answers: Any
) -> None:
    """Issue 10 (4): read-only mode never writes; a no, nobody to ask, an editor that cannot write."""
    async with editor(tmp_path, call("apply_patch", PATCH, "c1"), **settings) as at:
        _, status, _ = await heard(at, "c1", *answers)
        assert status == "failed"
        assert not [file for file in at.editor.files if file[0] == "write"]
        assert (tmp_path / "a.py").read_text() == "saved\n"
        assert at.editor.buffers[str(tmp_path / "a.py")] == "saved\ntyped\n"


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        (PATCH.replace("*** End", "*** Add File: b.py\n+new\n*** End"), "a patch of its own"),
        ("*** Begin Patch\n*** Delete File: a.py\n*** End Patch", "only be updated"),
        ("*** Begin Patch\n*** Add File: a.py\n+new\n*** End Patch", "only be updated"),
        (PATCH.replace("@@", "*** Move to: b.py\n@@"), "only be updated"),
        (PATCH.replace("-typed", "-not there"), "see read_file"),
    ],
)
async def test_what_cannot_be_done_in_an_editor_is_refused_whole(tmp_path: Path, patch: str, expected: str) -> None:
    """Issue 10 (4): all of a patch or nothing; the model is told what it can do instead."""
    async with editor(tmp_path, call("apply_patch", patch, "c1")) as at:
        _, status, output = await heard(at, "c1", "once")
        assert status == "failed"
        assert expected in output
        assert not at.editor.asked
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.py"]
        assert (tmp_path / "a.py").read_text() == "saved\n"


async def test_what_is_saved_is_patched_on_disk_and_nobody_is_asked(tmp_path: Path) -> None:
    """Issue 10 (4): the sandbox is left only where it must be."""
    async with editor(tmp_path, call("apply_patch", PATCH.replace("typed", "saved"), "c1")) as at:
        at.editor.buffers.clear()
        _, status, _ = await heard(at, "c1")
        assert status == "completed"
        assert not at.editor.asked
        assert not [file for file in at.editor.files if file[0] == "write"]
        assert (tmp_path / "a.py").read_text() == "patched\n"


async def test_with_full_access_an_editor_writes_unasked(tmp_path: Path) -> None:
    """Issue 10 (4): there is no sandbox to leave."""
    script = call("apply_patch", PATCH, "c1")
    async with editor(tmp_path, script, sandbox="danger_full_access") as at:
        _, status, output = await heard(at, "c1")
        assert (status, at.editor.asked) == ("completed", []), output
        assert (tmp_path / "a.py").read_text() == "saved\npatched\n"


# ── no way around the sandbox ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "path", ["../secret", "link", "folder/secret", "/etc/passwd", "a.py/../../secret", "x\0y", "."]
)
async def test_the_editor_is_not_even_asked_about_what_lies_outside(tmp_path: Path, path: str) -> None:
    """Issue 10 (4), HARDENING A1: traversal, absolute paths and links, though the editor would read them all."""
    cwd = tmp_path / "workspace"
    cwd.mkdir()
    (tmp_path / "secret").write_text(SECRET)
    os.symlink(tmp_path / "secret", cwd / "link")
    os.symlink(tmp_path, cwd / "folder")
    async with editor(cwd, call("read_file", {"path": path}, "c1")) as at:
        _, status, output = await heard(at, "c1")
        assert status == "failed"
        assert SECRET not in output
        assert not at.editor.files


@pytest.mark.parametrize("part", ["sub", "sub/b.py"])
async def test_a_path_that_leads_elsewhere_while_the_editor_reads_betrays_nothing(tmp_path: Path, part: str) -> None:
    """Issue 10 (4), HARDENING A1: a command swaps a directory or a file for a link, and back, between our looks."""
    cwd = tmp_path / "workspace"
    (cwd / "sub").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "b.py").write_text(SECRET)
    (cwd / "sub" / "b.py").write_text("harmless\n")
    swapped = 0

    def swap() -> str:
        nonlocal swapped
        swapped += 1
        (cwd / part).rename(cwd / "away")
        os.symlink(tmp_path / part.replace("sub", "elsewhere"), cwd / part)
        try:
            return (cwd / "sub" / "b.py").read_text()
        finally:
            (cwd / part).unlink()
            (cwd / "away").rename(cwd / part)

    async with editor(cwd, call("read_file", {"path": "sub/b.py"}, "c1")) as at:
        at.editor.buffers[str(cwd / "sub" / "b.py")] = swap
        _, status, output = await heard(at, "c1")
        assert swapped == 2
        assert status == "completed"
        assert SECRET not in output
        assert output.endswith("harmless")


@pytest.mark.parametrize("target", [".git/config", "sub/.git/hooks/x", ".tertulia/config.toml", "../a.py", "link.py"])
async def test_what_no_patch_may_change_the_editor_does_not_change_either(tmp_path: Path, target: str) -> None:
    """Issue 10 (4), HARDENING A4: protected names, other places, links; whatever is typed there."""
    cwd = tmp_path / "workspace"
    cwd.mkdir()
    os.symlink(tmp_path / "a.py", cwd / "link.py")
    (tmp_path / "a.py").write_text("saved\n")
    if not target.startswith((".", "link")) or target.startswith((".git", ".tertulia")):
        (cwd / target).parent.mkdir(parents=True)
        (cwd / target).write_text("saved\n")
    before = (cwd / target).read_bytes()
    async with editor(cwd, call("apply_patch", PATCH.replace("a.py", target), "c1")) as at:
        at.editor.buffers[os.path.normpath(cwd / target)] = "saved\ntyped\n"
        at.editor.buffers[str(tmp_path / "a.py")] = "saved\ntyped\n"
        _, status, _ = await heard(at, "c1", "once")
        assert status == "failed"
        assert not [file for file in at.editor.files if file[0] == "write"]
        assert (cwd / target).read_bytes() == before


async def test_a_file_that_the_sandbox_could_not_write_is_not_written_by_the_editor(tmp_path: Path) -> None:
    """Issue 10 (4): the check is the sandbox's own, made after the person's yes."""
    roots = tmp_path / "roots"
    roots.mkdir()
    script = call("apply_patch", PATCH, "c1")
    # Below a temporary directory, which does not last, it is refused unasked.
    with TemporaryDirectory(dir=pwd.getpwuid(os.getuid()).pw_dir) as lasting:
        cwd = Path(lasting)
        async with editor(cwd, script, writable_roots=[str(roots)]) as at:
            _, status, output = await heard(at, "c1", "once")
            assert (status, len(at.editor.asked)) == ("failed", 1), output
            assert "cannot be changed" in output
            assert not [file for file in at.editor.files if file[0] == "write"]
            assert (cwd / "a.py").read_text() == "saved\n"


# ── an editor that fails, hangs or lies ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("answer", ["fails", "is too long"])
async def test_an_editor_that_fails_leaves_the_disk(tmp_path: Path, answer: str) -> None:
    """Issue 10 (4): the model reads what is saved."""

    def fail() -> str:
        raise ValueError("no such buffer")

    async with editor(tmp_path, call("read_file", {"path": "a.py"}, "c1")) as at:
        at.editor.buffers[str(tmp_path / "a.py")] = fail if answer == "fails" else "x" * (4 * 1024 * 1024 + 1)
        _, status, output = await heard(at, "c1")
        assert (status, output) == ("completed", "a.py, as saved: lines 1 to 1 of 1\nsaved")


async def test_an_editor_that_says_it_wrote_and_did_not_is_found_out(tmp_path: Path) -> None:
    """Issue 10 (4)."""
    async with editor(tmp_path, call("apply_patch", PATCH, "c1")) as at:
        at.editor.saves = False
        _, status, output = await heard(at, "c1", "once")
        assert status == "failed"
        assert "did not write a.py" in output


async def test_an_editor_that_formats_what_it_saves_has_done_its_work(tmp_path: Path) -> None:
    """Issue 10 (4): and the model knows that the file is not quite what it wrote."""
    async with editor(tmp_path, call("apply_patch", PATCH, "c1")) as at:
        at.editor.format = str.upper
        _, status, output = await heard(at, "c1", "once")
        assert status == "completed"
        assert "read it again" in output
        assert (tmp_path / "a.py").read_text() == "SAVED\nPATCHED\n"


async def test_what_was_typed_while_a_person_was_asked_is_not_lost(tmp_path: Path) -> None:
    """Issue 10 (4): a file that has changed since it was read is not written."""
    async with editor(tmp_path, call("apply_patch", PATCH, "c1")) as at:

        async def type_on() -> str:
            at.editor.buffers[str(tmp_path / "a.py")] = "saved\ntyped\nand more\n"
            return "once"

        _, status, output = await heard(at, "c1", type_on())
        assert status == "failed"
        assert "changed since it was read" in output
        assert "3\\tand more" in output
        assert not [file for file in at.editor.files if file[0] == "write"]


async def test_an_editor_that_hangs_is_asked_a_few_times_and_then_not_for_a_while() -> None:
    """Issue 10 (4): bounded in time; and a session that it does not know yet is not asked about."""

    async def serve(method: str, params: object) -> MethodResult:
        return MethodResult()

    sink = MemorySink()
    clock = FakeClock()
    buffers = EditorBuffers(Peer(sink, serve), can_write=True, answer_s=0.001, clock=clock)
    assert await buffers.text("/a") is None
    assert not sink.sent
    buffers.session_id = "s"
    async with asyncio.timeout(HANG_S):
        for _ in range(MAX_TIMEOUTS + 2):
            assert await buffers.text("/a") is None
        await buffers.write("/a", "x")
        assert len(sink.messages) == MAX_TIMEOUTS
        assert {message["method"] for message in sink.messages} == {"fs/read_text_file"}
        clock.advance(PAUSE_S)
        for _ in range(2):
            assert await buffers.text("/a") is None
        assert len(sink.messages) == MAX_TIMEOUTS + 1


async def test_many_questions_at_once_are_one_silence() -> None:
    """Issue 10 (4): an editor that was busy for one look at many files is asked again."""

    async def serve(method: str, params: object) -> MethodResult:
        return MethodResult()

    sink = MemorySink()
    buffers = EditorBuffers(Peer(sink, serve), can_write=True, answer_s=0.001, clock=FakeClock())
    buffers.session_id = "s"
    many = MAX_TIMEOUTS + 2
    async with asyncio.timeout(HANG_S):
        for looks in range(1, MAX_TIMEOUTS + 2):
            await asyncio.gather(*(buffers.text("/a") for _ in range(many)))
            assert len(sink.messages) == min(looks, MAX_TIMEOUTS) * many


@each_row("result", [None, {}, {"content": 7}, {"content": None}, "text", {"content": "\ud800"}])
async def test_nonsense_is_no_text(result: Any) -> None:
    """Issue 10 (4): whatever the editor answers."""

    class Says(MemorySink):
        def send(self, messages: Any) -> None:
            super().send(messages)
            peer._settle({"id": 0, "result": result})

    async def serve(method: str, params: object) -> MethodResult:
        return MethodResult()

    peer = Peer(Says(), serve)
    buffers = EditorBuffers(peer, can_write=True)
    buffers.session_id = "s"
    assert await buffers.text("/a") is None
