"""Issue 26: real programs in the sandbox reach the hosts of the list, and nothing else."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from msgspec.structs import replace

from tertulia.errors import SandboxError
from tertulia.events.clock import SystemClock
from tertulia.policy.host_rules import HostRules
from tertulia.sandbox.sandbox import Sandbox
from tests.deadlines import HANG_S
from tests.sandbox.confined import NOBODY, ROOT, Place, as_ordinary_user, need, ordinary_python, waiting_sandbox
from tests.sandbox.proxy.proxied import HERE, until
from tests.sandbox.proxy.real_programs import PROGRAMS, all_problems
from tests.sandbox.proxy.sandboxed import FETCHES, Sandboxed, ordinary_line, problems, sandboxed, served

LISTENS = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
inside, _ = server.accept()
client.sendall(b"relayed")
print(inside.recv(10))
for address in ("127.0.0.1", "10.0.0.1", "169.254.169.254", "192.0.2.1"):
    try:
        socket.create_connection((address, int(sys.argv[1])), timeout=2)
        print("reached", address)
    except OSError as error:
        print(type(error).__name__)
for name in ("socket", "\\0abstract"):
    try:
        socket.socket(socket.AF_UNIX).bind(name)
        print("bound", name)
    except OSError as error:
        print(type(error).__name__)
"""
"""A relay inside the sandbox reaches itself alone."""


@pytest.fixture(autouse=True)
def _tools() -> None:
    need("bubblewrap")


def needed(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"there is no {program}")
    return path


async def test_curl_reaches_what_is_allowed_and_nothing_else_also_in_a_prepared_sandbox(place: Place) -> None:
    needed("curl")
    with served() as server:
        async with sandboxed(place, server.server_port) as at:
            await at.run("true")
            await waiting_sandbox(at.sandbox)
            assert await problems(at) == []
            assert {access.host for access in at.accesses if access.verdict == "allowed"} == {"files.example"}
            assert set(server.paths) == {"/", "/away"}


@contextmanager
def ordinary_folder() -> Iterator[tuple[str, Path]]:
    """(a Python that an ordinary user can run, a folder of that user's)."""
    python = ordinary_python()
    if python is None:
        pytest.skip("not root, or no Python that an ordinary user can run")
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, NOBODY, NOBODY)
        yield python, Path(folder)


def test_it_is_the_same_for_an_ordinary_user() -> None:
    needed("curl")
    with ordinary_folder() as (python, folder):
        done = as_ordinary_user(*ordinary_line(python, folder), timeout=HANG_S)
        assert (done.returncode, done.stdout) == (0, f"uid {NOBODY}: 8 accesses"), done.stdout + done.stderr


async def test_nothing_of_ours_runs_inside_and_there_is_no_other_way_out(place: Place) -> None:
    """A relay inside the sandbox; addresses; processes that are not the command's."""
    with served() as server:
        async with sandboxed(place, server.server_port) as at:
            for _ in range(2):
                finished = await at.run(sys.executable, "-I", "-S", "-c", LISTENS, str(server.server_port))
                first, *others = finished.output.text().split("\n")[:-1]
                assert first == "b'relayed'"
                assert set(others[:4]) <= {"ConnectionRefusedError", "OSError", "TimeoutError"}
                # Descriptor passing: there is no place to meet another sandbox at.
                assert others[4:] == ["PermissionError"] * 2
                # Of the prepared one, too: it has become the command.
                await waiting_sandbox(at.sandbox)
            listed = await at.run("sh", "-c", "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done")
            assert "tertulia" not in listed.output.text()
            assert server.paths == []


async def test_the_variables_lead_every_program_to_the_proxy(place: Place) -> None:
    async with sandboxed(place, 1) as at:
        finished = await at.run("env", environment={"PATH": "/usr/bin:/bin", "http_proxy": "x"})
    lines = set(finished.output.text().split())
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        assert f"{name}=http://127.0.0.1:3128" in lines
    for name in ("all_proxy", "ALL_PROXY"):
        assert f"{name}=socks5h://127.0.0.1:3128" in lines
    assert {"no_proxy=localhost,127.0.0.1,::1", "NO_PROXY=localhost,127.0.0.1,::1"} <= lines


async def test_with_true_and_false_nothing_has_changed(place: Place, sandbox: Sandbox) -> None:
    for network in (False, True, False):
        command = place.command("sh", "-c", "env; ls /sys/class/net")
        command = replace(command, confinement=replace(command.confinement, network=network))
        text = (await sandbox.run(command, timeout_s=HANG_S)).output.text()
        assert "proxy" not in text


async def test_a_listener_of_another_command_is_not_reached(place: Place) -> None:
    """Another conversation's proxy: while one command has it, another reaches by its own what its own list allows."""
    with served() as server:
        async with sandboxed(place, server.server_port) as at:
            running = await at.sandbox.start(at.command("sleep", "600"))
            words = ("curl", "-sS", "-x", "http://127.0.0.1:3128", f"http://files.example:{at.port}/")
            without = await at.sandbox.run(place.command(*words), timeout_s=HANG_S)
            assert without.exit_code == 7
            other = Sandboxed(place, at.sandbox, at.port)
            other.rules = HostRules((f"other.example:{at.port}",))
            refused = await other.run(*words)
            await running.kill()
            assert "files.example" in refused.output.text()
            assert "is not allowed here" in refused.output.text()
            assert (server.paths, at.accesses, len(other.accesses)) == ([], [], 1)
            await other.nursery.close(HANG_S)


async def test_when_the_proxy_is_closed_in_the_middle_the_command_gets_nothing_more(place: Place) -> None:
    """The proxy killed in the middle."""
    with served() as server:
        async with sandboxed(place, server.server_port) as at:
            url = f"http://files.example:{at.port}/"
            script = f"curl -sS {url}; echo; read line; curl -sS -m 20 {url}; curl -sS -m 20 --noproxy '*' {url}"
            running = await at.sandbox.start(at.command("bash", "-c", script, keep_stdin=True))
            await until(lambda: at.accesses)
            running._spawned._proxy.close()  # type: ignore[attr-defined]
            await running.write(b"\n")
            finished = await running.wait(HANG_S)
            assert finished is not None
            text = finished.output.text()
            assert text.count("hello from") == 1
            assert text.count("curl: (7)") + text.count("curl: (6)") == 2
            assert len(server.paths) == 1


async def test_when_our_whole_process_is_killed_the_command_ends_and_reaches_nothing_more(place: Place) -> None:
    """The proxy killed in the middle, by `kill -9`: no process of ours can close anything then."""
    needed("curl")
    with served() as server:
        folder = place.root / "of-the-program"
        folder.mkdir()
        line = [sys.executable, "-m", "tests.sandbox.proxy.sandboxed", str(folder), str(server.server_port), place.tag]
        with subprocess.Popen(line, cwd=ROOT) as program:
            try:
                await until(lambda: len(server.paths) > 3)
                assert len(place.survivors()) > 1
            finally:
                program.kill()
        try:
            await until(lambda: not place.survivors())
        finally:
            for pid in place.survivors():
                os.kill(pid, signal.SIGKILL)
        # What was sent before that is answered to nobody; then the server hears of this test alone.
        for path in ("/first", "/second"):
            urlopen(f"http://{HERE}:{server.server_port}{path}", timeout=HANG_S).close()
            await until(lambda: not server.connections)
    assert server.paths[server.paths.index("/first") :].count("/") <= 1
    assert server.paths[-1] == "/second"


async def test_no_command_inherits_a_descriptor_of_the_proxy(place: Place) -> None:
    """Descriptor passing: neither another command nor a program outside holds the listener or a connection of one."""
    listing = (
        "import os; print([os.readlink(f'/proc/self/fd/{n}') "
        "for n in range(99) if os.path.lexists(f'/proc/self/fd/{n}')])"
    )
    with served() as server:
        async with sandboxed(place, server.server_port) as at:
            running = await at.sandbox.start(at.command("bash", "-c", FETCHES, "x", f"http://files.example:{at.port}/"))
            await until(lambda: len(at.accesses) > 1)
            listener = running._spawned._proxy._listener  # type: ignore[attr-defined]
            assert not listener.get_inheritable()
            inside = await at.run(sys.executable, "-I", "-S", "-c", listing)
            command = at.command(sys.executable, "-I", "-S", "-c", listing)
            outside = replace(command, confinement=replace(command.confinement, mode="danger_full_access"))
            texts = [inside.output.text(), (await at.sandbox.run(outside, timeout_s=HANG_S)).output.text()]
            await running.kill()
    assert all("pipe" in text and "socket" not in text for text in texts), texts


async def test_the_landlock_tier_refuses_a_list_and_says_why(place: Place) -> None:
    need("landlock")
    sandbox = Sandbox(tier="landlock", clock=SystemClock())
    at = Sandboxed(place, sandbox, 1)
    try:
        with pytest.raises(SandboxError, match=r"hosts by name need bubblewrap.*a port names no host"):
            await at.run("true")
    finally:
        await sandbox.close()


async def test_a_list_without_a_gate_is_refused(place: Place, sandbox: Sandbox) -> None:
    at = Sandboxed(place, sandbox, 1)
    with pytest.raises(SandboxError, match="no gate decides which; nothing was run"):
        await sandbox.run(replace(at.command("true"), gate=None), timeout_s=HANG_S)


# ---- real programs


def installed() -> list[str]:
    """Those of git, pip and npm that there are."""
    found = [program for program in PROGRAMS if shutil.which(program)]
    if len(found) < len(PROGRAMS):
        warnings.warn(f"not tried, because they are not installed: {PROGRAMS.keys() - {*found}}", stacklevel=2)
    return found


async def test_git_pip_and_npm_get_what_they_want_from_an_allowed_host_and_from_no_other(tmp_path: Path) -> None:
    assert await all_problems(tmp_path, installed()) == []


def test_git_pip_and_npm_do_so_for_an_ordinary_user_too() -> None:
    programs = installed()
    with ordinary_folder() as (python, folder):
        line = (python, "-m", "tests.sandbox.proxy.real_programs", str(folder), *programs)
        done = as_ordinary_user(*line, timeout=HANG_S)
        wanted = (0, f"uid {NOBODY}: {len(programs)} programs")
        assert (done.returncode, done.stdout) == wanted, done.stdout + done.stderr
