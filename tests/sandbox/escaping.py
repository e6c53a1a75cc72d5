"""The escape suite as a program: sets a scene, has the probe run in a sandbox, and judges from outside.

`python -m tests.sandbox.escaping TIER` prints one JSON object. It is run as whoever is to be tried: root, or an
ordinary user. `landlock@3` is Landlock as if the kernel had version 3, `landlock@3+alone` besides as if it had no
namespaces. `bubblewrap+prepared`: each command in a sandbox that was made before it was known. With a layout (`same`,
`inside`) the workspace is a user's home or has one inside, what is guarded there is tried as well, and a hostile
process of the same session runs beside.
"""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from tertulia.events.clock import SystemClock
from tertulia.sandbox.confine import confine
from tertulia.sandbox.launcher import landlock
from tertulia.sandbox.prepared import prepared_sandbox
from tertulia.sandbox.runner import Command, CommandResult, RunningCommand
from tertulia.sandbox.sandbox import Sandbox
from tertulia.sandbox.seccomp import ALLOW, REFUSE
from tertulia.sandbox.seccomp_numbers import current_machine
from tertulia.session.settings.settings import Settings, load_settings
from tests.deadlines import HANG_S
from tests.sandbox.confined import counted_uses, waiting_sandbox
from tests.sandbox.home_scene import CANARY, SECRETS, Home

Layout = Literal["beside", "inside", "same"]
"""Where the user's home is, as seen from the workspace."""
PROBE = Path(__file__).with_name("probe.py")
HOME_PROBE = Path(__file__).with_name("probe_home.py")
DEADLINE_S = HANG_S
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.shmat.restype = ctypes.c_void_p

C_PROGRAM = '#include <stdio.h>\nint main(void) { puts("compiled"); return 0; }\n'
POOL = """
import multiprocessing
def double(n): return 2 * n
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(sum(pool.map(double, range(10))))
"""
LOOPBACK = """
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
server.accept()[0].sendall(b"ok")
print(client.recv(2).decode())
"""
TEMPORARY = "import tempfile; f = tempfile.NamedTemporaryFile(); f.write(b'x'); f.flush(); print('kept')"


def _no_private_place(wanted: Path) -> Path:
    """There, or, where a command has a private directory of that name and may write what it likes, at the root."""
    return Path("/") if wanted.is_relative_to("/tmp") or wanted.is_relative_to("/var/tmp") else wanted


class HostIpc:
    """System V and POSIX objects of this user, outside every sandbox. Closed twice is closed."""

    def __init__(self) -> None:
        self.shared_memory = LIBC.shmget(0, 4096, 0o600)
        self.messages = LIBC.msgget(0, 0o600)
        self.semaphores = LIBC.semget(0, 1, 0o600)
        self.mqueue = f"/tertulia-{os.getpid()}"
        self.queue = LIBC.mq_open(self.mqueue.encode(), os.O_CREAT | os.O_RDWR, 0o600, None)
        assert -1 not in (self.shared_memory, self.messages, self.semaphores, self.queue)

    def places(self) -> dict[str, Any]:
        names = ("shared_memory", "messages", "semaphores")
        # The system call takes the name without its slash.
        return {**{name: getattr(self, name) for name in names}, "mqueue": self.mqueue[1:]}

    def changes(self) -> list[str]:
        """What somebody did to them."""
        found = []
        if (at := LIBC.shmat(self.shared_memory, None, 0)) == ctypes.c_void_p(-1).value:
            found.append("shared memory is gone")
        else:
            LIBC.shmdt(ctypes.c_void_p(at))
        if LIBC.msgrcv(self.messages, ctypes.create_string_buffer(64), 32, 0, 0o4000) != -1:
            found.append("a message was sent")
        if LIBC.semctl(self.semaphores, 0, 12) != 0:
            found.append("a semaphore was set")
        return found

    def close(self) -> None:
        if self.queue < 0:
            return
        LIBC.shmctl(self.shared_memory, 0, None)
        LIBC.msgctl(self.messages, 0, None)
        LIBC.semctl(self.semaphores, 0, 0)
        LIBC.mq_close(self.queue)
        LIBC.mq_unlink(self.mqueue.encode())
        self.queue = -1


class Scene:
    """A workspace with a repository in it, things outside, and people who listen."""

    def __init__(self, layout: Layout = "inside", *, takes_apart: bool = False) -> None:
        """Where the user's home is; whether a root that has it inside is taken apart, and nothing made at its top."""
        self.folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="escape-")))
        self.workspace = self.folder / "workspace"
        self.outside = self.folder / "outside"
        self.far = _no_private_place(Path(__file__).parents[2]) / f".escape-{os.getpid()}"
        homes = {"beside": self.folder / "home", "inside": self.workspace / "home", "same": self.workspace}
        for folder in (self.workspace, self.outside, homes[layout]):
            folder.mkdir(exist_ok=True)
        for name in ("file", "quiet"):
            (self.outside / name).write_text("untouched")
        self.home = Home(homes[layout])
        self.room = self.workspace / "room" if takes_apart else self.workspace
        self.room.mkdir(exist_ok=True)
        self._make_repository()
        self._listen()
        self.ipc = HostIpc()
        self.before = self.state()

    def _make_repository(self) -> None:
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder)}
        git = ["git", "-C", str(self.workspace), "init", "--quiet"]
        subprocess.run(git, check=True, env=environment)
        (self.workspace / ".git" / "hooks").mkdir(exist_ok=True)
        (self.workspace / ".mcp.json").write_text("{}")
        (self.workspace / ".vscode").mkdir()
        (self.workspace / "deep" / "er" / ".git" / "hooks").mkdir(parents=True)
        (self.workspace / "deep" / "er" / ".git" / "config").write_text("[core]")
        (self.room / "main.c").write_text(C_PROGRAM)
        (self.room / "pool.py").write_text(POOL)

    def _listen(self) -> None:
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.unix, self.near, self.abstract = (socket.socket(socket.AF_UNIX) for _ in range(3))
        self.unix.bind(str(self.outside / "socket"))
        self.near.bind(str(self.workspace / "socket"))
        self.abstract.bind(f"\0tertulia-{os.getpid()}")
        for line in (self.unix, self.near, self.abstract):
            line.listen()
        self.datagrams, self.abstract_datagrams = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
        self.datagrams.bind(str(self.outside / "datagrams"))
        self.abstract_datagrams.bind(f"\0tertulia-datagrams-{os.getpid()}")
        self.lines = (self.tcp, self.udp, self.unix, self.near, self.abstract)
        self.lines += (self.datagrams, self.abstract_datagrams)
        for line in self.lines:
            line.setblocking(False)

    def places(self) -> dict[str, Any]:
        return {
            "workspace": str(self.workspace),
            "outside": str(self.outside),
            "far": str(self.far),
            "tcp": self.tcp.getsockname()[1],
            "udp": self.udp.getsockname()[1],
            "unix": self.unix.getsockname(),
            "near": self.near.getsockname(),
            "abstract": f"tertulia-{os.getpid()}",
            "datagrams": self.datagrams.getsockname(),
            "abstract_datagrams": f"tertulia-datagrams-{os.getpid()}",
            **self.ipc.places(),
            "parent": os.getpid(),
            "canary": CANARY,
            "secrets": [str(self.home.folder / name) for name in SECRETS],
            "missing_secret": str(self.home.folder / ".kube"),
        }

    def command(self, *argv: str, cwd: Path | None = None, **fields: Any) -> Command:
        confinement = confine(Settings().rights, str(self.workspace), guarded=self.home.guarded())
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home.folder)}
        return Command(argv=argv, cwd=str(cwd or self.room), confinement=confinement, environment=environment, **fields)

    def home_probe(self, *, forever: bool = False) -> Command:
        """What tries the guarded paths; for ever, until it is killed."""
        text = json.dumps({**self.home.places(), "forever": forever})
        return self.command(sys.executable, "-I", "-S", "-c", HOME_PROBE.read_text(), text)

    def state(self) -> dict[str, str]:
        """Everything outside and everything protected, with contents and metadata."""
        found: dict[str, str] = {}
        protected = (".git", ".mcp.json", ".vscode", ".claude", ".codex", ".idea", ".tertulia", "deep/er/.git")
        for top in (self.outside, *(self.workspace / name for name in protected)):
            below = () if top.is_symlink() else top.rglob("*")
            found |= {str(path): _facts(path) for path in (top, *below) if os.path.lexists(path)}
        return found

    def changes(self) -> list[str]:
        """What is different now, and who was reached."""
        after = self.state()
        found = sorted(path for path in self.before.keys() | after.keys() if self.before.get(path) != after.get(path))
        if self.far.exists():
            found.append(str(self.far))
        found += [*self.home.changes(), *self.ipc.changes()]
        if (obeyed := self.next_model()) != "scripted/mine":
            found.append(f"the next run obeys a planted setting: {obeyed}")
        return found + [f"a listener was reached: {line!r}" for line in self.lines if _was_reached(line)]

    def next_model(self) -> object:
        """What a run that begins now would be set to."""
        return load_settings(cwd=self.room, environ={"HOME": str(self.home.folder)}).settings.model

    def close(self) -> None:
        for line in self.lines:
            line.close()
        self.ipc.close()
        self.far.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def _facts(path: Path) -> str:
    status = path.lstat()
    text = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    attributes = os.listxattr(path, follow_symlinks=False)
    return f"{hashlib.sha256(text).hexdigest()} {status.st_mode} {status.st_uid} {status.st_mtime_ns} {attributes}"


def _was_reached(line: socket.socket) -> bool:
    try:
        if line.type == socket.SOCK_DGRAM:
            line.recv(1)
        else:
            line.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def controls(scene: Scene, tier: str) -> dict[str, tuple[Command, str]]:
    """What must keep working: the command, and what it prints."""
    python = sys.executable
    found: dict[str, tuple[Command, str]] = {
        "write to the workspace": (scene.command("sh", "-c", "echo x > written && cat written"), "x"),
        "read outside": (scene.command("cat", str(scene.outside / "file"), cwd=scene.outside), "untouched"),
        "git status": (scene.command("git", "status", "--short", "-uall"), "main.c"),
        "read a startup file": (scene.command("cat", str(scene.home.folder / ".bashrc")), "# mine"),
        "python": (scene.command(python, "-c", "print(6 * 7)"), "42"),
        "pip": (scene.command(python, "-m", "pip", "--version"), "pip "),
        "temporary files": (scene.command(python, "-c", TEMPORARY), "kept"),
        "move to another directory": (
            scene.command("sh", "-c", "mkdir -p away && echo x > moved && mv moved away/ && cat away/moved"),
            "x",
        ),
        "a pipe": (scene.command("sh", "-c", "seq 1000 | tail -n 1"), "1000"),
        "a background job": (scene.command("sh", "-c", "sleep 0.01 & wait; echo waited"), "waited"),
        "standard input": (scene.command("wc", "-c", stdin=b"x" * 100_000), "100000"),
        "make a program executable": (
            scene.command("sh", "-c", "printf '#!/bin/sh\necho ran' > p && chmod +x p && ./p"),
            "ran",
        ),
    }
    found |= _scheduling_controls(scene)
    if shutil.which("gcc"):
        found["compile and run C"] = (scene.command("sh", "-c", "gcc main.c -o main && ./main"), "compiled")
    if tier == "bubblewrap":
        found["multiprocessing"] = (scene.command(python, "pool.py"), "90")
        found["a server and a client inside"] = (scene.command(python, "-c", LOOPBACK), "ok")
        found["a file in /tmp"] = (scene.command("sh", "-c", "echo x > /tmp/x && cat /tmp/x"), "x")
    return found


def _scheduling_controls(scene: Scene) -> dict[str, tuple[Command, str]]:
    """A program may be as modest as it likes, and pairs of sockets that reach only each other are made."""
    affinity = "import os; os.sched_setaffinity(0, os.sched_getaffinity(0)); print('set')"
    limit = "import os, resource as r; r.setrlimit(4, (0, 0)); print('set' if r.prlimit(os.getpid(), 4) else '')"
    pairs = "import socket as s; one, other = s.socketpair(); one.send(b'made'); print(other.recv(4).decode())"
    found = {
        "nice": (scene.command("nice", "-n", "19", "nice"), str(min(19, os.nice(0) + 19))),
        "affinity of oneself": (scene.command(sys.executable, "-c", affinity), "set"),
        "limits of oneself": (scene.command(sys.executable, "-c", limit), "set"),
        "stream pairs": (scene.command(sys.executable, "-c", pairs), "made"),
        "reserve blocks": (
            scene.command(sys.executable, "-c", "import os; os.posix_fallocate(os.open('r', 65), 0, 9999); print(1)"),
            "1",
        ),
    }
    for program, line, expected in (
        ("taskset", ("taskset", "1", "echo", "pinned"), "pinned"),
        ("ionice", ("ionice", "-c", "3", "echo", "idle"), "idle"),
        ("node", ("node", "-e", "require('os').setPriority(19); console.log('node')"), "node"),
        ("java", ("java", "-Xmx64m", "-version"), "version"),
    ):
        if shutil.which(program, path="/usr/local/bin:/usr/bin:/bin"):
            found[program] = (scene.command(*line), expected)
    return found


async def _run(sandbox: Sandbox, command: Command, *, prepared: bool) -> CommandResult:
    if prepared:
        _good(await sandbox.run(replace(command, argv=("true",), stdin=b""), timeout_s=DEADLINE_S))
        await waiting_sandbox(sandbox)
    return await sandbox.run(command, timeout_s=DEADLINE_S)


async def _probed(sandbox: Sandbox, scene: Scene, *, hostile: bool, prepared: bool) -> dict[str, bool]:
    """What every attempt came to, with somebody of the same session who tries the same all the while."""
    beside = await _beside(sandbox, scene) if hostile else None
    try:
        probe = scene.command(
            sys.executable, "-I", "-S", "-c", PROBE.read_text(), json.dumps(scene.places()), cwd=scene.outside
        )
        answer: dict[str, bool] = {}
        for command in (probe, scene.home_probe(), scene.home_probe()):
            # Twice: what the first has moved away, the second would find.
            answer |= json.loads(_good(await _run(sandbox, command, prepared=prepared)).output.text())
        return answer
    finally:
        if beside is not None:
            await beside.kill()


async def _beside(sandbox: Sandbox, scene: Scene) -> RunningCommand:
    up = asyncio.Event()
    running = await sandbox.start(scene.home_probe(forever=True), lambda _: up.set())
    await asyncio.wait_for(up.wait(), DEADLINE_S)
    return running


async def try_everything(kind: str, layout: Layout | None = None) -> dict[str, Any]:
    """Every attempt and every control; the result names those that went wrong."""
    with counted_uses() as used:
        return {**await _tried(kind, layout), "in_prepared": len(used)}


async def _tried(kind: str, layout: Layout | None) -> dict[str, Any]:
    tier, _, how = kind.partition("+")
    prepared = how == "prepared"
    if prepared:
        # What others mount meanwhile would make it stale.
        prepared_sandbox._MOUNTS = os.devnull
    usual: Layout = "beside" if tier == "landlock" else "inside"
    apart = tier == "landlock" and layout is not None
    scene = Scene(layout or usual, takes_apart=apart)
    sandbox = Sandbox(tier=tier, clock=SystemClock())  # type: ignore[arg-type]
    try:
        answer = await _probed(sandbox, scene, hostile=layout is not None, prepared=prepared)
        changes = scene.changes()
        scene.close()
        scene = Scene(layout or usual, takes_apart=apart)
        failed = {}
        wanted = controls(scene, tier)
        for name, (command, expected) in wanted.items():
            finished = await _run(sandbox, command, prepared=prepared)
            if finished.exit_code != 0 or expected not in finished.output.text():
                failed[name] = f"{finished.exit_code}: {finished.output.text()[-500:]}"
        return {
            "uid": os.getuid(),
            "attempts": len(answer),
            "leaked": [name for name, succeeded in answer.items() if succeeded],
            "changes": changes,
            "controls": len(wanted),
            "not_covered": sandbox.not_covered,
            "failed": failed,
        }
    finally:
        await sandbox.close()
        scene.close()


def _good(finished: CommandResult) -> CommandResult:
    assert finished.exit_code == 0, finished
    return finished


def pretend(version: str) -> None:
    """Have this process, and all that it starts, see an older kernel."""
    number, _, alone = version.partition("+")
    landlock.abi = lambda: int(number)
    if alone:
        machine = current_machine()
        code = [(0x20, 0, 0, 0), (0x15, 0, 1, machine.number("unshare")), (0x06, 0, 0, REFUSE), (0x06, 0, 0, ALLOW)]
        LIBC.prctl(38, 1, 0, 0, 0)
        landlock.install_filter(b"".join(struct.pack("=HBBI", *step) for step in code), machine.name)


if __name__ == "__main__":
    chosen, _, older = sys.argv[1].partition("@")
    if older:
        pretend(older)
    sys.stdout.write(json.dumps(asyncio.run(try_everything(chosen, *sys.argv[2:]))))  # type: ignore[arg-type]
