"""The part of apply_patch that touches the disk, run by its path as in the sandbox."""

from __future__ import annotations

import ast
import base64
import errno
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tertulia.errors import InvalidParamsError
from tertulia.tools.patch import disk_program
from tertulia.tools.patch.plan import make_plan
from tertulia.tools.patch.text import parse_patch
from tests.tools.patching import patch, run_disk, snapshot

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")


def change(path: str, old: bytes | None, new: bytes | None, like: str | None = None) -> dict[str, Any]:
    return {
        "path": path,
        "old": None if old is None else hashlib.sha256(old).hexdigest(),
        "new": None if new is None else base64.b64encode(new).decode(),
        "like": like,
    }


def apply(place: Path, *changes: dict[str, Any], prefix: tuple[str, ...] = ()) -> dict[str, Any]:
    return run_disk(place, {"verb": "apply", "changes": list(changes)}, prefix)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with something beside it that must not be touched."""
    workspace = tmp_path / "workspace"
    (workspace / "sub").mkdir(parents=True)
    (workspace / "a").write_bytes(b"1\n")
    (workspace / "sub" / "b").write_bytes(b"2\n")
    (tmp_path / "outside").write_bytes(b"secret\n")
    return workspace


def test_it_imports_nothing_but_the_standard_library() -> None:
    tree = ast.parse(Path(disk_program.__file__).read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_files_are_read_and_missing_ones_are_none(place: Path) -> None:
    answer = run_disk(place, {"verb": "read", "paths": ["a", "sub/b", "x", "no/x"]})
    assert answer == {"ok": True, "files": {"a": "MQo=", "sub/b": "Mgo=", "x": None, "no/x": None}}


def test_a_plan_is_carried_out_whole_and_nothing_is_left_beside_it(place: Path) -> None:
    (place / "a").chmod(0o754)
    answer = apply(
        place,
        change("a", b"1\n", None),
        change("moved", None, b"one\n", like="a"),
        change("sub/b", b"2\n", b"two\n"),
        change("x/y/new", None, b"new"),
    )
    assert answer == {"ok": True}
    tree = snapshot(place)
    assert {name: text for name, (_, text) in tree.items()} == {
        "moved": b"one\n",
        "sub": None,
        "sub/b": b"two\n",
        "x": None,
        "x/y": None,
        "x/y/new": b"new",
    }
    assert tree["moved"][0] & 0o777 == 0o754


def test_a_file_keeps_its_permissions_but_not_the_right_to_be_somebody_else(place: Path) -> None:
    (place / "a").chmod(0o4751)
    assert apply(place, change("a", b"1\n", b"x"))["ok"]
    assert (place / "a").stat().st_mode & 0o7777 == 0o751


def test_an_existing_file_may_be_written_over(place: Path) -> None:
    assert apply(place, change("sub/b", b"2\n", b"x"), change("a", b"1\n", b""))["ok"]
    assert (place / "sub" / "b").read_bytes() == b"x"
    assert (place / "a").read_bytes() == b""


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────


def link_to_file(place: Path) -> None:
    (place / "bad").symlink_to("a")


def link_out(place: Path) -> None:
    (place / "bad").symlink_to("../outside")


def dangling_link(place: Path) -> None:
    (place / "bad").symlink_to("../new")


def hard_link(place: Path) -> None:
    os.link(place.parent / "outside", place / "bad")


def directory(place: Path) -> None:
    (place / "bad").mkdir()


def fifo(place: Path) -> None:
    os.mkfifo(place / "bad")


def too_large(place: Path) -> None:
    with (place / "bad").open("wb") as file:
        file.truncate(disk_program.MAX_FILE_BYTES + 1)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (link_to_file, "symbolic link"),
        (link_out, "symbolic link"),
        (dangling_link, "symbolic link"),
        (hard_link, "hard links"),
        (directory, "directory|regular file"),
        (fifo, "regular file"),
        (too_large, "more than"),
    ],
)
@pytest.mark.parametrize("new", [b"x", None])
def test_what_is_no_plain_file_is_refused_and_the_tree_stays_as_it_was(
    place: Path, make: Callable[[Path], None], word: str, new: bytes | None
) -> None:
    """A23: symlink, hard link; every refusal leaves the tree byte-identical."""
    make(place)
    before = snapshot(place.parent)
    for request in (
        {"verb": "read", "paths": ["a", "bad"]},
        {"verb": "apply", "changes": [change("a", b"1\n", b"x"), change("bad", b"", new)]},
        {"verb": "apply", "changes": [change("bad", None, b"x"), change("a", b"1\n", None)]},
    ):
        answer = run_disk(place, request)
        assert (answer["ok"], answer["path"]) == (False, "bad")
        assert any(part in answer["reason"] for part in word.split("|"))
    assert snapshot(place.parent) == before


@pytest.mark.parametrize(
    "path",
    [
        "../outside",
        "/etc/hosts",
        "sub/../a",
        "./a",
        "",
        ".",
        "..",
        "a/",
        "sub//b",
        "a\0b",
        "out/outside",
        "loop/x",
        "a/x",
    ],
)
def test_a_path_that_leads_away_is_refused_here_too(place: Path, path: str) -> None:
    """A23: traversal, absolute, NUL, a link in the middle; whatever the plan was made from."""
    (place / "out").symlink_to("..")
    (place / "loop").symlink_to("loop")
    before = snapshot(place.parent)
    for request in (
        {"verb": "read", "paths": [path]},
        {"verb": "apply", "changes": [change("a", b"1\n", b"x"), change(path, None, b"x")]},
        {"verb": "apply", "changes": [change("a", b"1\n", b"x"), change(path, b"secret\n", None)]},
    ):
        answer = run_disk(place, request)
        assert (answer["ok"], answer["path"]) == (False, path)
    assert snapshot(place.parent) == before


@pytest.mark.parametrize(
    "late",
    [
        change("sub/b", b"other", b"x"),
        change("sub/b", b"other", None),
        change("sub/b", None, b"x"),
        change("gone", b"1\n", b"x"),
        change("gone", b"1\n", None),
    ],
)
def test_a_file_that_has_changed_since_it_was_read_is_not_written(place: Path, late: dict[str, Any]) -> None:
    before = snapshot(place)
    answer = apply(place, change("a", b"1\n", b"x"), change("new/x", None, b"x"), late)
    assert answer == {"ok": False, "path": late["path"], "reason": "it has changed since it was read"}
    assert snapshot(place) == before


@pytest.mark.parametrize(
    "changes",
    [
        [change("n", None, b"x"), change("n/m", None, b"x")],
        [change("n/m", None, b"x"), change("n", None, b"x")],
        [change("a", b"1\n", None), change("a/m", None, b"x")],
        [change("sub", None, b"x")],
        [change("x" * 256, None, b"x")],
    ],
)
def test_what_the_disk_cannot_hold_is_undone(place: Path, changes: list[dict[str, Any]]) -> None:
    """A23: rejected whole, nothing half applied."""
    before = snapshot(place)
    assert not apply(place, change("sub/b", b"2\n", b"x"), change("d/e/f", None, b"x"), *changes)["ok"]
    assert snapshot(place) == before


def test_all_files_of_a_request_have_one_bound(place: Path) -> None:
    for name in ("x", "y", "z"):
        with (place / name).open("wb") as file:
            file.truncate(disk_program.MAX_FILE_BYTES)
    answer = run_disk(place, {"verb": "read", "paths": ["x", "y", "z"]})
    assert (answer["ok"], answer["path"]) == (False, "z")


# ── faults in the middle ────────────────────────────────────────────────────────────────────────────────────

CHANGES = [
    change("a", b"1\n", b"one\n"),
    change("sub/b", b"2\n", None),
    change("new/c", None, b"three\n"),
    change("d", None, b"four\n"),
]


@needs_strace
@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "error", "times"),
    [
        ("rename", "EIO", 4),
        ("link", "EPERM", 1),
        ("mkdir", "ENOSPC", 1),
        ("fchmod", "EPERM", 1),
        ("write", "ENOSPC", 3),
    ],
)
def test_a_fault_at_any_moment_leaves_the_tree_as_it_was(place: Path, call: str, error: str, times: int) -> None:
    """A23: every way into the disk fails, at each of its turns; the tree is byte-identical, or the patch is whole."""
    calls = {"rename": "rename,renameat,renameat2", "link": "link,linkat", "mkdir": "mkdir,mkdirat"}.get(call, call)
    before = snapshot(place)
    for turn in range(1, times + 1):
        inject = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={calls}:error={error}:when={turn}")
        answer = apply(place, *CHANGES, prefix=inject)
        if call == "link":
            # A disk without second names is no error.
            assert answer == {"ok": True}
            assert (place / "a").read_bytes() == b"one\n"
        else:
            assert answer["ok"] is False
            assert os.strerror(getattr(errno, error)) == answer["reason"]
            assert snapshot(place) == before


@needs_strace
def test_a_disk_that_refuses_for_good_is_told_from_one_that_lets_nothing_be_undone(place: Path) -> None:
    """A protected directory is read-only to us; and a disk may die in the middle."""
    calls = "rename,renameat,renameat2"
    inject = ("strace", "-f", "-qq", "-o", "/dev/null", "-e")
    before = snapshot(place)
    refused = apply(place, change("a", b"1\n", None), prefix=(*inject, f"inject={calls}:error=EROFS"))
    assert refused == {"ok": False, "path": "a", "reason": "Read-only file system"}
    assert snapshot(place) == before
    broken = apply(place, *CHANGES, prefix=(*inject, f"inject={calls}:error=EIO:when=2+"))
    assert (broken["ok"], broken["undone"], broken["reason"]) == (False, False, "Input/output error")


@needs_strace
@pytest.mark.slow
@pytest.mark.parametrize("turn", range(1, 5))
def test_killed_at_any_moment_every_file_is_whole(place: Path, turn: int) -> None:
    """A23: nobody can undo after a kill -9; but no file is torn or lost."""
    calls = "rename,renameat,renameat2"
    inject = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={calls}:signal=KILL:when={turn}")
    answer = apply(place, *CHANGES, prefix=inject)
    assert answer.get("ok") is not True
    assert (place / "a").read_bytes() in (b"1\n", b"one\n")
    contents = [path.read_bytes() for path in place.rglob("*") if path.is_file()]
    assert b"2\n" in contents
    assert set(contents) <= {b"1\n", b"one\n", b"2\n", b"three\n", b"four\n"}


@needs_strace
@pytest.mark.parametrize("name", ["TERM", "INT", "HUP"])
def test_asked_to_stop_in_the_middle_it_finishes_first(place: Path, name: str) -> None:
    """A23: a signal that can be refused does not leave half a patch."""
    calls = "rename,renameat,renameat2"
    inject = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={calls}:signal={name}:when=2")
    assert apply(place, *CHANGES, prefix=inject) == {"ok": True}
    assert {name for name in snapshot(place) if "/" in name or name in "ad"} == {"a", "d", "new/c"}


# ── undoing, inside this process ─────────────────────────────────────────────────────────────────────────────

ACTS = ("rename", "link", "mkdir", "open", "fchmod", "stat", "unlink")


@pytest.mark.parametrize("act", ACTS)
def test_whatever_fails_first_is_undone_in_this_process_too(
    place: Path, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A23: as with strace, but for each act at each of its turns, and quickly."""
    real, before = getattr(os, act), snapshot(place)
    for turn in range(1, 100):
        count = 0

        def failing(*arguments: Any, turn: int = turn, **names: Any) -> Any:
            nonlocal count
            count += 1
            if count == turn:
                raise OSError(5, "Input/output error")
            return real(*arguments, **names)

        root = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with monkeypatch.context() as patched:
                patched.setattr(os, act, failing)
                disk_program.apply_all(root, CHANGES, "suffix")
        except disk_program.RefusedError:
            assert snapshot(place) == before
        else:
            break
        finally:
            os.close(root)
    assert (place / "a").read_bytes() == b"one\n"
    assert not (place / "sub" / "b").exists()


# ── patches as a whole ───────────────────────────────────────────────────────────────────────────────────────

NAMES = st.sampled_from(["a", "b", "d/c", "d/e/f", "g"])
TEXTS = st.sampled_from(["1\n", "1\n2\n", "é\r\n", "", "no end"])


@settings(max_examples=25)
@given(
    st.dictionaries(NAMES, TEXTS, max_size=4),
    st.lists(st.tuples(st.sampled_from(["add", "delete", "update", "move"]), NAMES, NAMES), min_size=1, max_size=4),
)
def test_what_was_planned_is_what_is_on_the_disk(files: dict[str, str], acts: list[tuple[str, str, str]]) -> None:
    """A23: planned in memory, carried out on disk; a patch that is refused changes nothing."""
    lines = {
        "add": lambda path, other: [f"*** Add File: {path}", "+x"],
        "delete": lambda path, other: [f"*** Delete File: {path}"],
        "update": lambda path, other: [f"*** Update File: {path}", "+y"],
        "move": lambda path, other: [f"*** Update File: {path}", f"*** Move to: {other}"],
    }
    text = patch(*(line for act, path, other in acts for line in lines[act](path, other)))
    contents = {path: file.encode() for path, file in files.items()}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for path, content in contents.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(content)
        before = snapshot(place)
        try:
            plan = make_plan(parse_patch(text), contents.get)
        except InvalidParamsError:
            return
        expected: dict[str, bytes | None] = contents | {change.path: change.new for change in plan.changes}
        if run_disk(place, plan.for_disk())["ok"]:
            found = {name: text for name, (_, text) in snapshot(place).items() if text is not None}
            assert found == {path: new for path, new in expected.items() if new is not None}
        else:
            assert snapshot(place) == before


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────


def look(place: Path, *paths: str, write: bool = False) -> dict[str, Any]:
    return run_disk(place, {"verb": "look", "paths": list(paths), "write": write})


def test_a_trail_stays_the_same_until_something_on_the_way_is_touched(place: Path) -> None:
    """Issue 10 (4): whoever moves a part away and back in between is found out; what lies beside it is no matter."""
    first = look(place, "sub/b", "a", "missing")
    assert base64.b64decode(first["files"]["sub/b"]) == b"2\n"
    assert (first["files"]["missing"], first["trails"]["missing"]) == (None, None)
    (place / "beside").touch()
    assert look(place, "sub/b", "a", "missing") == first
    (place / "sub").rename(place / "away")
    (place / "away").rename(place / "sub")
    second = look(place, "sub/b", "a")
    assert second["trails"]["sub/b"] != first["trails"]["sub/b"]
    assert second["trails"]["a"] == first["trails"]["a"]


def test_a_trail_that_could_hide_a_change_is_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 10 (4): a file of the future, or of this very tick, could be changed again without a trace."""
    monkeypatch.setattr(disk_program.time, "clock_gettime_ns", lambda clock: 0)
    root = os.open(place, os.O_RDONLY)
    ticks = iter(range(2))
    assert disk_program.settled_trail(root, "a", ticks) is None
    assert next(ticks, None) is None, "it was waited for"
    os.close(root)
