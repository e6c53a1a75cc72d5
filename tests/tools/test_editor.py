"""What an editor says of files, held against the disk: believed, spelled and written as it should be."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tertulia.errors import ApprovalDeniedError, InvalidParamsError, SandboxError, TertuliaError
from tertulia.tools.editor import MAX_ASKED, MAX_TEXT_BYTES, EditorFile, EditorView
from tertulia.tools.tool import CallContext
from tests.tables import each_row
from tests.tools.calling import call
from tests.tools.workbench import Workbench, allow, deny, workbench


class Open:
    """An editor that shows what it is told to, and writes to the disk."""

    def __init__(self, **texts: str | Callable[[], str]) -> None:
        self.texts = texts
        self.asked: list[str] = []
        self.written: list[tuple[str, str]] = []
        self.can_write = True
        self.saves = True

    async def text(self, path: str) -> str | None:
        self.asked.append(path)
        text = self.texts.get(os.path.basename(path))
        return text() if callable(text) else text

    async def write(self, path: str, text: str) -> None:
        self.written.append((path, text))
        if self.saves:
            self.texts.pop(os.path.basename(path), None)
            Path(path).write_bytes(text.encode())


def at(bench: Workbench) -> CallContext:
    return bench.context(call("read_file", {}))


@each_row(
    ("saved", "shown", "unsaved"),
    [
        (b"a\n", None, None),
        (b"a\n", "a\n", None),
        (b"a\n", "a", None),
        (b"a\r\nb\r\n", "a\nb\n", None),
        (b"\xef\xbb\xbfa\n", "a\n", None),
        (b"a\n", "a\nb\n", b"a\nb\n"),
        (b"a\n", "a\nb", b"a\nb\n"),
        (b"a", "a\nb", b"a\nb"),
        (b"a\r\n", "a\nb", b"a\r\nb\r\n"),
        (b"a\r\n", "a\r\nb\r\n", b"a\r\nb\r\n"),
        (b"\xef\xbb\xbfa\n", "b\n", b"\xef\xbb\xbfb\n"),
        (b"\xe9\n", "é\nmore", None),
        (b"", "typed", b"typed"),
    ],
)
def test_what_is_not_saved_is_what_differs_by_more_than_spelling(
    saved: bytes, shown: str | None, unsaved: bytes | None
) -> None:
    """Issue 10 (4): line ends, a mark and a last newline are the editor's ways, and what it would save keeps them."""
    assert EditorFile(saved, shown).unsaved() == unsaved


@each_row(
    ("saved", "shown", "value"),
    [
        (b"a\r\n", "a\nb", "a\nc"),
        (b"\xef\xbb\xbfa\n", "a\nb\n", "a\nc\n"),
        (b"a\n", "a\nb\n", "a\nc\n"),
        (b"a\r\n", "a\r\nb\r\n", "a\r\nc\r\n"),
        (b"\xef\xbb\xbfa\n", "\ufeffa\nb\n", "\ufeffa\nc\n"),
    ],
)
def test_a_new_text_is_spelled_as_the_editor_spells(saved: bytes, shown: str, value: str) -> None:
    """Issue 10 (4): and found again, in whatever spelling it is shown or saved afterwards."""
    file = EditorFile(saved, shown)
    text = (file.unsaved() or b"").decode().replace("b", "c")
    assert file.as_shown(text) == value
    assert EditorFile(text.encode(), None).has(value)
    assert EditorFile(b"other", value).has(text)
    assert not file.has(text)
    assert not EditorFile(b"other", None).has("")


async def test_files_of_several_roots_are_looked_at_from_the_outermost(tmp_path: Path) -> None:
    """Issue 10 (4): what lies above the outermost root no command can move, so a trail may begin there."""
    async with workbench(tmp_path) as bench:
        bench.with_rights("never", writable_roots=(str(bench.root), str(bench.outside)))
        (bench.root / "sub").mkdir()
        view = EditorView(bench.place, Open())
        inner = CallContext(**{**_fields(at(bench)), "cwd": str(bench.root / "sub")})
        assert view.locate("x", inner) == (str(bench.root), "sub/x")
        (bench.root / "a").write_text("1")
        (bench.outside / "b").write_text("2")
        other = str(bench.outside / "b")
        seen = await view.look(["a", other, "missing"], at(bench))
        assert {path: file.saved for path, file in seen.items()} == {"a": b"1", other: b"2"}


def _fields(context: CallContext) -> dict[str, object]:
    return {name: getattr(context, name) for name in context.__struct_fields__}


async def test_only_what_is_worth_it_is_asked_about(tmp_path: Path) -> None:
    """Issue 10 (4): nothing that is not there, nothing large, and not a thousand files."""
    async with workbench(tmp_path) as bench:
        names = [f"f{number}" for number in range(MAX_ASKED + 5)]
        for name in names:
            (bench.root / name).write_text(name)
        (bench.root / "large").write_bytes(b"x" * (MAX_TEXT_BYTES + 1))
        editor = Open(large="small", missing="there")
        view = EditorView(bench.place, editor)
        assert (await view.look(["large", "missing"], at(bench)))["large"].shown is None
        assert not editor.asked
        assert len(await view.look(names, at(bench))) == len(names)
        assert len(editor.asked) == len(set(editor.asked)) == MAX_ASKED


async def test_the_editor_is_not_asked_about_a_masked_file(tmp_path: Path) -> None:
    """S9, HARDENING A: what commands are not shown is not asked about, and the refusal names the mask."""
    secret = Path(os.path.realpath(tmp_path)) / "workspace" / "secret"
    async with workbench(tmp_path, masked=(str(secret),)) as bench:
        secret.mkdir()
        (secret / "key").write_text("1")
        editor = Open(key="2")
        with pytest.raises(InvalidParamsError, match=f"{secret} is masked"):
            await EditorView(bench.place, editor).look(["secret/key"], at(bench))
        assert not editor.asked


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────


async def changed(bench: Workbench, editor: Open) -> TertuliaError | None:
    """Try to have `a` changed; the refusal."""
    view, here = EditorView(bench.place, editor), at(bench)
    seen = (await view.look(["a"], here))["a"]
    try:
        await view.approve("a patch", "a", (), here)
        assert await view.write("a", seen, "saved\nchanged\n", here)
    except TertuliaError as error:
        return error
    return None


async def test_an_allowed_change_is_written_once_and_looked_at(tmp_path: Path) -> None:
    """Issue 10 (4)."""
    async with workbench(tmp_path, allow) as bench:
        (bench.root / "a").write_text("saved\n")
        editor = Open(a="saved\ntyped\n")
        assert await changed(bench, editor) is None
        assert editor.written == [(str(bench.root / "a"), "saved\nchanged\n")]
        assert [(request.kind, request.title) for request in bench.asked] == [
            ("escalation", "change a in the editor, outside the sandbox")
        ]


@pytest.mark.parametrize(
    ("refusal", "rights"),
    [
        (ApprovalDeniedError, {}),
        (InvalidParamsError, {"sandbox": "read_only"}),
        (InvalidParamsError, {"writable_roots": "outside"}),
    ],
)
async def test_a_change_that_may_not_be_is_not_asked_of_the_editor(
    tmp_path: Path, refusal: type[TertuliaError], rights: dict[str, object]
) -> None:
    """Issue 10 (4): a no, the read-only mode, and a file that the sandbox could not write."""
    async with workbench(tmp_path, allow if rights else deny) as bench:
        (bench.root / "a").write_text("saved\n")
        roots = (str(bench.outside),) if "writable_roots" in rights else None
        bench.with_rights("on-request", **{**rights, "writable_roots": roots})
        editor = Open(a="saved\ntyped\n")
        assert isinstance(await changed(bench, editor), refusal)
        assert not editor.written
        assert (bench.root / "a").read_text() == "saved\n"


async def test_an_editor_that_does_not_write_is_found_out(tmp_path: Path) -> None:
    """Issue 10 (4): with full access too, where nobody is asked."""
    async with workbench(tmp_path) as bench:
        (bench.root / "a").write_text("saved\n")
        bench.with_rights("on-request", sandbox="danger_full_access")
        editor = Open(a="saved\ntyped\n")
        editor.saves = False
        assert isinstance(await changed(bench, editor), SandboxError)
        assert not bench.asked
