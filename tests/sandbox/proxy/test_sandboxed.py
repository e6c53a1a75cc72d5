"""Issue 26: real programs in the sandbox reach the hosts of the list, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tertulia.errors import SandboxError
from tertulia.events.clock import SystemClock
from tertulia.sandbox.sandbox import Sandbox
from tests.deadlines import HANG_S
from tests.sandbox.confined import Place, as_ordinary_user, need, ordinary_python, waiting_sandbox
from tests.sandbox.proxy.proxied import until
from tests.sandbox.proxy.sandboxed import Sandboxed, ordinary_line, problems, sandboxed, served

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


def test_it_is_the_same_for_an_ordinary_user(tmp_path: Path) -> None:
    needed("curl")
    python = ordinary_python()
    if python is None:
        pytest.skip("not root, or no Python that an ordinary user can run")
    folder = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    try:
        os.chmod(folder, 0o777)
        done = as_ordinary_user(*ordinary_line(python, folder), timeout=HANG_S)
        assert (done.returncode, done.stdout.split("\n")[0]) == (0, "uid 65534: 8 accesses"), done.stdout + done.stderr
    finally:
        shutil.rmtree(folder)


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
    from msgspec.structs import replace

    for network in (False, True, False):
        command = place.command("sh", "-c", "env; ls /sys/class/net")
        command = replace(command, confinement=replace(command.confinement, network=network))
        text = (await sandbox.run(command, timeout_s=HANG_S)).output.text()
        assert "proxy" not in text


async def test_a_listener_of_another_command_is_not_reached(place: Place) -> None:
    """Another conversation's proxy: while one command has it, another without the right finds nothing there."""
    with served() as server:
        async with sandboxed(place, server.server_port) as at:
            running = await at.sandbox.start(at.command("sleep", "600"))
            curl = place.command("curl", "-sS", "-x", "http://127.0.0.1:3128", f"http://files.example:{at.port}/")
            finished = await at.sandbox.run(curl, timeout_s=HANG_S)
            assert finished.exit_code == 7
            await running.kill()
            assert server.paths == []


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
    from msgspec.structs import replace

    at = Sandboxed(place, sandbox, 1)
    with pytest.raises(SandboxError, match="no gate decides which; nothing was run"):
        await sandbox.run(replace(at.command("true"), gate=None), timeout_s=HANG_S)


# ---- real programs


async def test_git_clones_from_an_allowed_host_and_from_no_other(place: Place, tmp_path: Path) -> None:
    needed("git")
    source = tmp_path / "served" / "repo"
    source.mkdir(parents=True)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(source)]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"], ["update-server-info"]):
        subprocess.run([*git, *words], check=True, timeout=HANG_S)
    with served(tmp_path / "served") as server:
        async with sandboxed(place, server.server_port) as at:
            cloned = await at.run("git", "clone", "-q", f"http://files.example:{at.port}/repo/.git", "copy")
            assert cloned.exit_code == 0, cloned.output.text()
            refused = await at.run("git", "clone", "-q", f"http://evil.example:{at.port}/repo/.git", "other")
            assert refused.exit_code == 128
            assert "403" in refused.output.text()
    assert (place.root / "copy" / ".git").is_dir()


async def test_pip_installs_from_an_allowed_index_and_from_no_other(place: Place, tmp_path: Path) -> None:
    folder = tmp_path / "served" / "simple" / "tiny"
    folder.mkdir(parents=True)
    name = "tiny-1.0-py3-none-any.whl"
    import zipfile

    with zipfile.ZipFile(folder / name, "w") as wheel:
        wheel.writestr("tiny.py", "value = 1\n")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    (folder / "index.html").write_text(f'<a href="{name}">{name}</a>')
    with served(tmp_path / "served") as server:
        async with sandboxed(place, server.server_port) as at:
            for host, code in (("files.example", 0), ("evil.example", 1)):
                line = [
                    sys.executable,
                    "-m",
                    "pip",
                    "install",
                    "-q",
                    "--no-cache-dir",
                    "--retries",
                    "0",
                    "--target",
                    "into",
                ]
                line += ["--disable-pip-version-check", "--trusted-host", host]
                line += ["--index-url", f"http://{host}:{at.port}/simple/", "tiny"]
                finished = await at.run(*line, environment={"PATH": "/usr/bin:/bin", "HOME": "/tmp"})
                assert finished.exit_code == code, finished.output.text()
    assert (place.root / "into" / "tiny.py").read_text() == "value = 1\n"


async def test_npm_installs_from_an_allowed_registry_and_from_no_other(place: Place, tmp_path: Path) -> None:
    npm = needed("npm")
    folder, package = tmp_path / "served", tmp_path / "package"
    folder.mkdir()
    package.mkdir()
    (package / "package.json").write_text('{"name": "tiny", "version": "1.0.0"}')
    with tarfile.open(folder / "tiny.tgz", "w:gz") as archive:
        archive.add(package, "package")
    with served(folder) as server:
        port = server.server_port
        version = {"name": "tiny", "version": "1.0.0", "dist": {"tarball": f"http://files.example:{port}/tiny.tgz"}}
        (folder / "tiny").write_text(
            json.dumps({"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}})
        )
        async with sandboxed(place, port) as at:
            (place.root / "package.json").write_text("{}")
            for host, worked in (("files.example", True), ("evil.example", False)):
                line = [npm, "install", "tiny", "--no-audit", "--no-fund", "--fetch-retries=0", "--prefix", host]
                (place.root / host).mkdir()
                line += ["--registry", f"http://{host}:{port}/", "--cache", "/tmp/cache"]
                finished = await at.run(*line, environment={"PATH": os.environ["PATH"], "HOME": "/tmp"})
                assert (finished.exit_code == 0) is worked, finished.output.text()
    assert (place.root / "files.example" / "node_modules" / "tiny" / "package.json").is_file()
