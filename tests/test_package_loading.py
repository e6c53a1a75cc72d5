"""Optional packages: one is loaded at a time, and why one cannot be is told as it is."""

from __future__ import annotations

import ast
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tertulia.package_loading import PackageError, load_package
from tests.deadlines import HANG_S

SOURCE = Path(__file__).parent.parent / "src" / "tertulia"

# Imports itself in a circle, as big packages do, which works in any order in one thread. The thread that comes by
# `first` waits until another one stands in `second` and waits for `first`: then each holds what the other wants.
_MEETING = """
import sys, threading, time
in_second = threading.Event()
def waits_for_an_import(thread):
    frame = sys._current_frames().get(thread)
    return frame is not None and "importlib" in frame.f_code.co_filename
"""
_FIRST = """
import time
from {name} import meeting
if meeting.in_second.wait(0.3):
    deadline = time.monotonic() + 60
    while not meeting.waits_for_an_import(meeting.thread) and time.monotonic() < deadline:
        pass
from {name}.second import WORD
"""
_SECOND = """
import threading
from {name} import meeting
meeting.thread = threading.get_ident()
meeting.in_second.set()
import {name}.first
WORD = "here"
"""
_BOTH = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
sys.path.insert(0, {folder!r})
from tertulia.package_loading import load_package
def plain(name):
    import_module(name)
def locked(name):
    load_package("it needs", "x", name)
begun = threading.Event()
def first(load):
    begun.set()
    load("circle")
def second(load):
    begun.wait(60)
    while "circle.first" not in sys.modules:
        if load is locked: break
    load("circle.second")
with ThreadPoolExecutor(2) as pool:
    both = [pool.submit(first, {load}), pool.submit(second, {load})]
    print([type(each.exception(90)).__name__ for each in both])
"""


def _package(folder: Path, name: str, **modules: str) -> None:
    (folder / name).mkdir()
    for module, text in modules.items():
        (folder / name / f"{module}.py").write_text(text.replace("{name}", name))


@pytest.mark.parametrize("load", ["plain", "locked"])
def test_two_threads_that_import_halves_of_a_package_do_not_meet(tmp_path: Path, load: str) -> None:
    """Issue 17, item 11: 7 of 86 starts of `mcp-broker` said that the extra was missing. The plain way shows it."""
    _package(tmp_path, "circle", __init__="import {name}.first", meeting=_MEETING, first=_FIRST, second=_SECOND)
    script = _BOTH.format(folder=str(tmp_path), load=load)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=HANG_S, check=False)
    ends = "['ImportError', 'ImportError']" if load == "plain" else "['NoneType', 'NoneType']"
    assert done.stdout.strip() == ends, done.stderr


def test_a_package_that_is_not_there_is_a_missing_extra() -> None:
    """S002-31: the sentence says what to install."""
    with pytest.raises(PackageError, match=r"it needs the `x` extra: pip install 'tertulia\[x\]'"):
        load_package("it needs", "x", "no_such_package_at_all", "no_such_package_at_all.part")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import no_such_package_at_all", "No module named 'no_such_package_at_all'"),
        ("from os import no_such_name", "cannot import name 'no_such_name'"),
        ("import {name}.no_such_part", "no_such_part"),
    ],
)
def test_any_other_failure_is_told_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, why: str
) -> None:
    """Issue 17, item 11: a package that is there and broken is not called missing."""
    _package(tmp_path, "broken", __init__=text)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(PackageError, match="`broken`, which is installed and cannot be loaded") as raised:
        load_package("it needs", "x", "broken")
    assert why in str(raised.value)
    assert "extra" not in str(raised.value)
    assert "broken" not in sys.modules


def test_threads_that_want_the_same_package_all_get_it() -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: load_package("it needs", "x", name), ["json", "json.decoder", "email.mime"] * 8))


def test_no_other_place_decides_that_a_package_is_missing() -> None:
    """The family: a lazy import that catches its own failure would have no lock, and tell every failure as one."""
    # The two programs are started by themselves, where nothing of the package can be imported.
    programs = {SOURCE / "models" / "local" / "llama_program.py", SOURCE / "tools" / "patch" / "disk_program.py"}
    allowed = {SOURCE / "package_loading.py", *programs}
    for path in SOURCE.rglob("*.py"):
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        assert path in allowed or not names & {"ImportError", "ModuleNotFoundError"}, path


def test_what_is_loaded_in_a_thread_is_all_that_is_imported_later_on_the_loop() -> None:
    """Issue 17, item 11: an import on the loop after `load_sdk` finds its module whole, and never begins one."""
    wanted = {
        module
        for folder in ("mcp", "session", "server", "executors")
        for path in (SOURCE / folder).rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        for module in _imported(node)
        if module.partition(".")[0] in ("mcp", "mcp_types", "acp")
    }
    assert {"mcp", "mcp_types", "acp.connection"} <= wanted
    script = (
        "import sys\nfrom tertulia.mcp.client import connection\n"
        "from tertulia.mcp.serve import endpoint\nfrom tertulia.executors.acp import agent_process\n"
        "connection._load()\nendpoint.load_sdk()\nagent_process.load_sdk()\n"
        f"print(sorted(set({sorted(wanted)!r}) - set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.stdout.strip() == "[]", done.stderr


def _imported(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [name.name for name in names]
        case ast.ImportFrom(module=str(module)):
            return [module]
        case _:
            return []
