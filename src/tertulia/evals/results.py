"""The results file: JSON lines, appended as runs end, so that a stopped command goes on where it was.

One process writes a file at a time. A line that was torn by a crash is dropped; any other line that cannot be read is
an error that names it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Literal, TypeVar

import msgspec
from msgspec.structs import replace

from tertulia.errors import BusyError, InvalidParamsError
from tertulia.evals.suite import Suite
from tertulia.policy.file_lock import try_lock
from tertulia.protocol.validation_text import explain_validation

VERSION = 1
Outcome = Literal["passed", "wrong", "timeout", "budget", "provider", "refused", "check", "error"]
OUTCOMES: dict[Outcome, str] = {
    "passed": "the check passed",
    "wrong": "the check failed",
    "timeout": "the run took longer than it may",
    "budget": "a limit of tokens, money or time was reached",
    "provider": "the model or the way to it failed",
    "refused": "the check failed, and calls were refused by policy",
    "check": "the check hung, or was killed before it had a verdict",
    "error": "the run failed in another way",
}
"""How a run can end, in words for people."""


class RunKey(msgspec.Struct, frozen=True):
    """Which run of a plan it is."""

    task: str
    candidate: str
    """The fingerprint of the candidate, and not its name."""
    repeat: int


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run: a line of the file."""

    task: str
    task_fingerprint: str
    kind: str
    candidate: str
    candidate_fingerprint: str
    repeat: int
    outcome: Outcome
    detail: str = ""
    """Why it did not pass: the end of what the check printed, or the message of the error."""
    answer: str = ""
    """The last thing that the candidate said, shortened."""
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    """None: the price is not known."""
    duration_s: float = 0.0
    """How long the candidate worked, without the check."""
    requests: int = 0
    calls: int = 0
    session: str = ""
    """The id of the recorded session; `tertulia sessions replay ID` shows it."""
    started_at: str = ""
    confined: bool = True
    """False: an executor did it, whose program is held by its own sandbox and not by ours."""

    @property
    def key(self) -> RunKey:
        """Which run of a plan it is."""
        return RunKey(self.task, self.candidate_fingerprint, self.repeat)

    @property
    def tokens(self) -> int:
        """All tokens, of input and of output together."""
        return self.input_tokens + self.output_tokens


def without_texts(record: RunRecord, *, is_stored: bool) -> RunRecord:
    """The record of a run whose storage policy is less than `full`: no answer, and nothing that may quote one.

    `is_stored`: whether there is a session to replay.
    """
    return replace(record, answer="", detail="", session=record.session if is_stored else "")


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a file."""

    tertulia_eval: int
    suite: str
    """The folder of the suite, for people."""


def read_results(path: Path) -> list[RunRecord]:
    """The runs of a file; of one that was done again the last. InvalidParams where it is no such file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidParamsError(f"{path}: cannot be read: {error.strerror}") from None
    return _last_of_each(_parse(path, content))


def _last_of_each(records: Iterable[RunRecord]) -> list[RunRecord]:
    return list({record.key: record for record in records}.values())


def _parse(path: Path, content: bytes) -> list[RunRecord]:
    # What stands behind the last line feed was torn.
    lines = content.split(b"\n")[:-1]
    if not lines:
        raise InvalidParamsError(f"{path}: expected results of `tertulia eval`, and the file has no whole line")
    header = _decode(path, 1, lines[0], Header)
    if header.tertulia_eval != VERSION:
        raise InvalidParamsError(f"{path}: written by another version of Tertulia (form {header.tertulia_eval})")
    return [_decode(path, number, line, RunRecord) for number, line in enumerate(lines[1:], 2)]


_Line = TypeVar("_Line", Header, RunRecord)


def _decode(path: Path, number: int, line: bytes, kind: type[_Line]) -> _Line:
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.ValidationError as error:
        raise InvalidParamsError(f"{path}, line {number}: {explain_validation(error, kind)}") from None
    except msgspec.DecodeError:
        raise InvalidParamsError(f"{path}, line {number}: not JSON; expected results of `tertulia eval`") from None


class ResultsFile:
    """A file that is written. Use it as a context manager; leaving it lets another process write."""

    def __init__(self, path: Path, suite: Suite) -> None:
        self.path = path
        self._suite = suite
        self._file = -1
        self.records: list[RunRecord] = []
        """The runs in it, of one that was done again the last."""

    def __enter__(self) -> ResultsFile:
        """Open or make the file. BusyError where another process writes it, InvalidParams where it is of another suite
        or cannot be used; it is unchanged then."""
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise InvalidParamsError(f"{self.path}: cannot be written: {error.strerror}") from None
        try:
            self._claim()
            self._begin()
        except BaseException:
            os.close(self._file)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def add(self, record: RunRecord) -> None:
        """Append a run. It is on the disk when this returns."""
        self._write(record)
        self.records = _last_of_each([*self.records, record])

    def _write(self, line: Header | RunRecord) -> None:
        encoded = msgspec.json.encode(line) + b"\n"
        while encoded:
            encoded = encoded[os.write(self._file, encoded) :]
        os.fsync(self._file)

    def _claim(self) -> None:
        if not try_lock(self._file):
            raise BusyError(
                f"{self.path}: another `tertulia eval` writes this file; wait for it, or name another one with --out"
            )

    def _begin(self) -> None:
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole == 0 and not _may_be_torn_header(content):
            raise InvalidParamsError(f"{self.path}: expected results of `tertulia eval`, and it is another file")
        if whole:
            self.records = _last_of_each(_parse(self.path, content))
            self._check_tasks()
        os.ftruncate(self._file, whole)
        if not whole:
            self._write(Header(tertulia_eval=VERSION, suite=str(self._suite.folder)))

    def _check_tasks(self) -> None:
        now = {task.id: task.fingerprint for task in self._suite.tasks}
        for record in self.records:
            if now.get(record.task, record.task_fingerprint) != record.task_fingerprint:
                raise InvalidParamsError(
                    f"{self.path}: has runs of another version of the task {record.task}; name another file with --out"
                )


def _may_be_torn_header(content: bytes) -> bool:
    return b'{"tertulia_eval":'.startswith(content[:17])
