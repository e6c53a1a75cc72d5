"""git, pip and npm in the sandbox: from an allowed host they get what they want, from another nothing.

`python -m tests.sandbox.proxy.real_programs FOLDER git pip npm` tries those, by an ordinary user as well, and writes
what is not as it should be.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pip

from tests.deadlines import HANG_S
from tests.sandbox.confined import Place
from tests.sandbox.proxy.sandboxed import Sandboxed, sandboxed, served

ALLOWED, REFUSED = "files.example", "evil.example"
_OWN = Path(pip.__file__).parents[1]


async def git_problems(folder: Path) -> list[str]:
    """Clones a repository that is served as plain files."""
    source = folder / "served" / "repo"
    source.mkdir(parents=True)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(source)]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"], ["update-server-info"]):
        subprocess.run([*git, *words], check=True, timeout=HANG_S)

    async def clone(at: Sandboxed, host: str) -> list[str]:
        line = ["git", "clone", "-q", f"http://{host}:{at.port}/repo/.git", host]
        return await _problems(at, host, *line, wanted=f"{host}/.git/HEAD", refusal="403")

    return await _both(folder, clone)


async def pip_problems(folder: Path) -> list[str]:
    """Installs a wheel from an index of one package."""
    index = folder / "served" / "simple" / "tiny"
    index.mkdir(parents=True)
    name = "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(index / name, "w") as wheel:
        wheel.writestr("tiny.py", "value = 1\n")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    (index / "index.html").write_text(f'<a href="{name}">{name}</a>')

    async def install(at: Sandboxed, host: str) -> list[str]:
        line = [sys.executable, "-m", "pip", "install", "-q", "--no-cache-dir", "--retries", "0", "--target", host]
        line += ["--disable-pip-version-check", "--trusted-host", host]
        line += ["--index-url", f"http://{host}:{at.port}/simple/", "tiny"]
        variables = {"PYTHONPATH": str(_OWN)}
        return await _problems(at, host, *line, wanted=f"{host}/tiny.py", refusal="No matching", **variables)

    return await _both(folder, install)


async def npm_problems(folder: Path) -> list[str]:
    """Installs a package from a registry of one; that says itself where its archive is, on the same host."""
    registry, package = folder / "served", folder / "package"
    registry.mkdir()
    package.mkdir()
    (package / "package.json").write_text('{"name": "tiny", "version": "1.0.0"}')
    with tarfile.open(registry / "tiny.tgz", "w:gz") as archive:
        archive.add(package, "package")

    async def install(at: Sandboxed, host: str) -> list[str]:
        version = {"name": "tiny", "version": "1.0.0", "dist": {"tarball": f"http://{host}:{at.port}/tiny.tgz"}}
        listed = {"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
        (registry / "tiny").write_text(json.dumps(listed))
        (at.place.root / host).mkdir()
        line = ["npm", "install", "tiny", "--no-audit", "--no-fund", "--fetch-retries=0", "--prefix", host]
        line += ["--registry", f"http://{host}:{at.port}/", "--cache", "/tmp/cache"]
        return await _problems(at, host, *line, wanted=f"{host}/node_modules/tiny/package.json", refusal="403")

    return await _both(folder, install)


PROGRAMS: dict[str, Callable[[Path], Awaitable[list[str]]]] = {
    "git": git_problems,
    "pip": pip_problems,
    "npm": npm_problems,
}


async def _both(folder: Path, act: Callable[[Sandboxed, str], Awaitable[list[str]]]) -> list[str]:
    with served(folder / "served") as server:
        async with sandboxed(Place(folder), server.server_port) as at:
            found = [*await act(at, ALLOWED), *await act(at, REFUSED)]
            reached = {access.host for access in at.accesses if access.verdict == "allowed"}
            refused = {access.host for access in at.accesses if access.verdict == "refused"}
    if (reached, refused) != ({ALLOWED}, {REFUSED}):
        found.append(f"reached {reached}, refused {refused}")
    return found


async def _problems(at: Sandboxed, host: str, *line: str, wanted: str, refusal: str, **variables: str) -> list[str]:
    environment = {"PATH": f"{os.path.dirname(shutil.which(line[0]) or '')}:/usr/bin:/bin", "HOME": "/tmp", **variables}
    finished = await at.run(*line, environment=environment)
    text, is_there = finished.output.text(), (at.place.root / wanted).exists()
    if host == ALLOWED:
        return [] if finished.exit_code == 0 and is_there else [f"{line}: {finished.exit_code} {text}"]
    return [] if finished.exit_code and not is_there and refusal in text else [f"{line} was not refused: {text}"]


async def all_problems(folder: Path, programs: Sequence[str]) -> list[str]:
    """Of each of these programs, in a folder of its own."""
    found: list[str] = []
    for program in programs:
        (folder / program).mkdir()
        found += await PROGRAMS[program](folder / program)
    return found


def main(folder: str, *programs: str) -> int:
    """Try them; the first line of what is written says by whom."""
    found = asyncio.run(all_problems(Path(folder), programs))
    sys.stdout.write("\n".join([f"uid {os.getuid()}: {len(programs)} programs", *found]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
