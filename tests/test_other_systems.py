"""Issue 25, 13: what macOS and Windows take of Tertulia runs where the modules and calls of Linux are missing.

Run on Linux, in a process in which they are taken away: no such machine was at hand. See docs/platforms.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
from tempfile import TemporaryDirectory

from tests.deadlines import HANG_S
from tests.tables import each_row

MISSING = """
import asyncio, importlib, importlib.abc, json, os, pkgutil, sqlite3, ssl, subprocess, sys, tempfile, types
import concurrent.futures, ctypes, http.server, logging.handlers, multiprocessing, socket, uuid, webbrowser, zoneinfo
for name in ("aiohttp", "anyio", "click", "mcp", "rich", "starlette", "textual.drivers.linux_driver", "uvicorn"):
    # Of others: they look at the system when they are imported.
    try:
        importlib.import_module(name)
    except ImportError:
        pass
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
if sys.argv[1] == "win32":
    missing = {"fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"}
    calls = ()
    import fcntl as locks
    msvcrt = types.ModuleType("msvcrt")
    msvcrt.LK_UNLCK, msvcrt.LK_LOCK, msvcrt.LK_NBLCK = 0, 1, 2
    def locking(number, how, count):
        import struct
        place = os.lseek(number, 0, os.SEEK_CUR)
        kind = {0: 2, 1: 1, 2: 1}[how]
        locks.fcntl(number, 38 if how == 1 else 37, struct.pack("hhqqi4x", kind, 0, place, count, 0))
    msvcrt.locking = locking
    sys.modules["msvcrt"] = msvcrt
else:
    missing, calls = set(), ("memfd_create", "pidfd_open", "O_PATH", "sched_getaffinity")
    import fcntl, resource, struct
    del resource.RUSAGE_THREAD, resource.prlimit, fcntl.F_OFD_SETLK, fcntl.F_OFD_GETLK
    of_linux = fcntl.fcntl
    def of_darwin(number, act, value=0):
        if act not in (90, 92):
            return of_linux(number, act, value)
        start, length, process, kind, whence = struct.unpack("qqihh", value)
        value = struct.pack("hhqqi4x", kind, whence, start, length, process)
        kind, whence, start, length, process = struct.unpack("hhqqi4x", of_linux(number, {90: 37, 92: 36}[act], value))
        return struct.pack("qqihh", start, length, process, kind, whence)
    fcntl.fcntl = of_darwin
for name in missing:
    sys.modules.pop(name, None)
for name in calls:
    delattr(os, name)
sys.meta_path.insert(0, Absent())
sys.platform = sys.argv[1]
os.environ["TERTULIA_HOME"] = tempfile.mkdtemp()
import tertulia
from tertulia.testing import ScriptedModel, call
"""
IMPORTS = (
    MISSING
    + """
failed = {}
for module in pkgutil.walk_packages(tertulia.__path__, "tertulia."):
    try:
        importlib.import_module(module.name)
    except (ImportError, AttributeError) as error:
        failed[module.name] = str(error)
print(json.dumps(failed))
"""
)
SESSION = (
    MISSING
    + """
async def main():
    model = ScriptedModel([call("shell", {"command": ["touch", "made"]}), "first"])
    async with tertulia.Session.start(tertulia.Settings(model=model)) as session:
        assert (await session.root.message("hello")).text == "first"
        (output,) = [item for item in model.requests[-1].items if isinstance(item, tertulia.ToolOutput)]
        id = session.id
        try:
            async with tertulia.Session.resume(id):
                raise AssertionError("two have it open")
        except tertulia.TertuliaError as error:
            assert "in use" in str(error), error
    settings = tertulia.Settings(model=ScriptedModel(["again"]))
    async with tertulia.Session.resume(id, settings=settings) as session:
        assert (await session.root.message("hello")).text == "again"
    assert not os.path.exists("made")
    print(output.text)
asyncio.run(main())
"""
)
EXEC = (
    MISSING
    + """
from tertulia.cli.main import main
words = sys.argv[2:]
sys.argv = ["tertulia", "exec", "-m", "scripted/tour", *words, "hi"]
sys.exit(main())
"""
)
OF_LINUX = ("tertulia.sandbox.", "tertulia.terminal.", "tertulia.cli.chat", "tertulia.evals.check_program")
"""Below these, Windows may lack modules: its commands are refused before any of them is loaded."""


NO_COMMANDS = ("-c", "shell_mode=none", "-c", "include_apply_patch_tool=false")


def run(program: str, system: str, cwd: object = None, *words: str, code: int = 0) -> str:
    line = [sys.executable, "-c", program, system, *words]
    done = subprocess.run(line, capture_output=True, text=True, timeout=HANG_S, check=False, cwd=cwd)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


@each_row("system", ["win32", "darwin"])
def test_every_module_but_those_of_the_sandbox_and_the_screen_is_imported(system: str) -> None:
    failed = json.loads(run(IMPORTS, system))
    assert [name for name in failed if not name.startswith(OF_LINUX)] == [], failed


def test_on_a_mac_without_seatbelt_sessions_are_kept_and_go_on_and_commands_are_refused(tmp_path) -> None:
    assert "/usr/bin/sandbox-exec is missing" in run(SESSION, "darwin", tmp_path)


def test_on_windows_sessions_are_kept_and_go_on_and_commands_say_that_they_need_wsl(tmp_path) -> None:
    assert "on Windows run Tertulia in WSL" in run(SESSION, "win32", tmp_path)


@each_row("system", ["win32", "darwin"])
def test_exec_answers_where_no_command_runs(system: str) -> None:
    with TemporaryDirectory() as folder:
        assert run(EXEC, system, folder, *NO_COMMANDS).strip()
        refused = run(EXEC, system, folder, code=1)
        assert ("shell_mode=none" if system == "win32" else "/usr/bin/sandbox-exec is missing") in refused
