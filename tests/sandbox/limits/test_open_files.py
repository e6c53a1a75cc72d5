"""Item 14 of the findings, 203 sessions at `ulimit -n 1024`: our programs use all files they may, children do not."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tertulia.errors import LimitError
from tertulia.sandbox.limits import open_files
from tests.deadlines import HANG_S

SOFT, HARD = 200, 900


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT, HARD))


def run(code: str, tmp_path: Path) -> Any:
    """What a program prints that begins with these limits."""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TERTULIA_HOME": str(tmp_path / "home")},
        preexec_fn=limited,
        capture_output=True,
        timeout=HANG_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    return json.loads(ran.stdout)


def test_a_program_of_ours_may_open_as_many_files_as_the_system_allows(tmp_path: Path) -> None:
    """And whoever imports the library keeps the limit that he had."""
    code = """
import json, resource
import tertulia
from tertulia.session.session import Session
now = lambda: resource.getrlimit(resource.RLIMIT_NOFILE)
seen = [now()]
from tertulia.cli.main import main
main(["--version"])
seen.append(now())
from tertulia.sandbox.limits.open_files import limit_before, raise_limit
raise_limit()
print()
print(json.dumps([seen, limit_before()]))
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], preexec_fn=limited, capture_output=True, timeout=HANG_S, check=True
    )  # fmt: skip
    assert json.loads(ran.stdout.splitlines()[-1]) == [[[SOFT, HARD], [HARD, HARD]], SOFT]


@pytest.mark.parametrize(
    "flags",
    [("-s", "danger-full-access"), ("-s", "read-only"), ("-s", "read-only", "-c", 'sandbox_tier="landlock"')],
)
def test_a_command_has_the_limit_that_the_program_began_with(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """Programs that use `select` break with more. Without a sandbox, in bubblewrap, with Landlock."""
    (tmp_path / "work").mkdir()
    ran = subprocess.run(
        [sys.executable, "-m", "tertulia", *flags, "sandbox", "--", "sh", "-c", "ulimit -Sn; ulimit -Hn"],
        cwd=tmp_path / "work",
        env={**os.environ, "TERTULIA_HOME": str(tmp_path / "home")},
        preexec_fn=limited,
        capture_output=True,
        timeout=HANG_S,
        check=False,
    )
    assert ran.stdout.split() == [b"%d" % SOFT, b"%d" % HARD], ran.stderr.decode()


def test_a_child_gets_the_limit_back_and_one_that_is_gone_needs_none(tmp_path: Path) -> None:
    code = """
import json, resource, subprocess, sys
from tertulia.sandbox.limits.open_files import restore_child_limit, raise_limit
with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as before:
    restore_child_limit(before.pid)
    seen = [resource.prlimit(before.pid, resource.RLIMIT_NOFILE)]
raise_limit()
with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
    seen.append(resource.prlimit(child.pid, resource.RLIMIT_NOFILE))
    restore_child_limit(child.pid)
    seen.append(resource.prlimit(child.pid, resource.RLIMIT_NOFILE))
restore_child_limit(child.pid)
print(json.dumps(seen))
"""
    assert run(code, tmp_path) == [[SOFT, HARD], [HARD, HARD], [SOFT, HARD]]


@pytest.mark.parametrize(
    ("now", "wanted"),
    [
        ((1_024, resource.RLIM_INFINITY), (1_048_576, resource.RLIM_INFINITY)),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), None),
        ((4_096, 4_096), None),
    ],
)
def test_a_limit_that_is_none_or_reached_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, now: tuple[int, int], wanted: tuple[int, int] | None
) -> None:
    question: list[tuple[int, int]] = []
    monkeypatch.setattr(open_files, "_before", None)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: now)
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: question.append(limits))
    open_files.raise_limit()
    assert question == ([] if wanted is None else [wanted])
    assert open_files.limit_before() == (None if wanted is None else now[0])


def test_a_limit_that_may_not_be_raised_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(kind: int, limits: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(open_files, "_before", None)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1, 2))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    open_files.raise_limit()
    assert open_files.limit_before() is None


def test_the_next_session_is_refused_in_one_sentence_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1_024, 1_024))
    monkeypatch.setattr(open_files, "_count_open", lambda: 952)
    open_files.check_free_files()
    monkeypatch.setattr(open_files, "_count_open", lambda: 953)
    with pytest.raises(LimitError, match=r"953 of 1,024 files .* close some, or raise the limit") as refusal:
        open_files.check_free_files()
    assert (refusal.value.code, refusal.value.detail) == ("limit", {"used": 953, "limit": 1_024})
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    open_files.check_free_files()


def test_where_the_system_does_not_tell_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_files._count_open() > 2

    def gone(path: str) -> list[str]:
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "listdir", gone)
    assert open_files._count_open() == 0
    open_files.check_free_files()
