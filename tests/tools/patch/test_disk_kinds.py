"""Links, permissions to run and empty directories, which a merge changes as well."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from tests.tools.patching import run_disk, snapshot


def change(path: str, old: bytes | None, new: bytes | None, **more: Any) -> dict[str, Any]:
    digest = None if old is None else hashlib.sha256(old).hexdigest()
    encoded = None if new is None else base64.b64encode(new).decode()
    return {"path": path, "old": digest, "new": encoded, "like": None, **more}


def apply(place: Path, *changes: dict[str, Any]) -> dict[str, Any]:
    return run_disk(place, {"verb": "apply", "changes": list(changes)})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "file").write_bytes(b"1\n")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "run").write_bytes(b"#!/bin/sh\n")
    (tmp_path / "run").chmod(0o755)
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "deep" / "er" / "one").write_bytes(b"one")
    return tmp_path


def test_a_digest_says_of_what_kind_a_file_is(place: Path) -> None:
    answer = run_disk(place, {"verb": "digest", "paths": ["file", "run", "link", "none"]})
    assert answer["files"] == {
        "file": {"kind": "file", "digest": hashlib.sha256(b"1\n").hexdigest(), "mode": 0o640},
        "run": {"kind": "executable", "digest": hashlib.sha256(b"#!/bin/sh\n").hexdigest(), "mode": 0o755},
        "link": {"kind": "link", "digest": hashlib.sha256(b"file").hexdigest(), "mode": 0o777},
        "none": None,
    }


def test_files_become_executable_and_links_and_back(place: Path) -> None:
    changes = (
        change("file", b"1\n", b"1\n", kind="executable"),
        change("run", b"#!/bin/sh\n", b"file", kind="link", old_kind="executable"),
        change("link", b"file", b"plain", kind="file", old_kind="link"),
        change("new", None, b"#!", kind="executable"),
        change("there", None, b"../elsewhere", kind="link"),
    )
    assert apply(place, *changes) == {"ok": True}
    assert (place / "file").stat().st_mode & 0o777 == 0o750
    assert os.readlink(place / "run") == "file"
    assert (place / "link").read_bytes() == b"plain"
    assert not (place / "link").is_symlink()
    assert (place / "new").stat().st_mode & 0o100
    assert os.readlink(place / "there") == "../elsewhere"
    assert not list(place.glob(".tertulia-*"))


def test_a_file_loses_the_permission_to_be_run(place: Path) -> None:
    assert apply(place, change("run", b"#!/bin/sh\n", b"x", kind="file"))["ok"]
    assert (place / "run").stat().st_mode & 0o777 == 0o644


def test_a_link_that_points_elsewhere_now_stops_all_of_it(place: Path) -> None:
    before = snapshot(place)
    answer = apply(place, change("file", b"1\n", b"2", kind="file"), change("link", b"other", None, old_kind="link"))
    assert answer == {"ok": False, "path": "link", "reason": "it has changed since it was read"}
    assert snapshot(place) == before


def test_a_link_is_put_back_when_a_later_step_fails(place: Path) -> None:
    before = snapshot(place)
    changes = (
        change("link", b"file", None, old_kind="link"),
        change("file", b"1\n", b"run", kind="link"),
        change("deep", None, b"a directory is there", kind="file"),
    )
    assert not apply(place, *changes)["ok"]
    assert snapshot(place) == before
