"""Secrets and texts taken out of logs: every record of a handler, and errors as a log may have them."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from typing import cast

from tertulia.policy.redaction import PROCESS_REDACTOR, Redactor
from tertulia.protocol.storage import Full, HeadersOnly, StoragePolicy

_MOST = 32


def describe_error(error: BaseException, storage: StoragePolicy) -> str:
    """The whole traceback where texts may be stored for good, else types and places of code only. Not redacted yet."""
    # A log is never swept: what has to expire must not get there.
    if isinstance(storage, Full):
        return "".join(traceback.format_exception(error)).rstrip()
    return "\n".join(_line(entry) for entry, _ in zip(_family(error), range(_MOST), strict=False))


def _line(error: BaseException) -> str:
    frames = list(traceback.walk_tb(error.__traceback__))[-_MOST:]
    # Two parts of a path say which code it is, and not whose directory it lies in.
    places = (f"{'/'.join(frame.f_code.co_filename.split('/')[-2:])}:{line}" for frame, line in frames)
    return " ".join((type(error).__qualname__, *places))


def _family(error: BaseException) -> Iterator[BaseException]:
    """The error, what caused it, and the members of groups, each once."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        entry = waiting.pop()
        if entry is None or id(entry) in seen:
            continue
        seen.add(id(entry))
        yield entry
        waiting.append(entry.__cause__ or entry.__context__)
        if isinstance(entry, BaseExceptionGroup):
            waiting += reversed(cast("BaseExceptionGroup[BaseException]", entry).exceptions)


def log_stack(error: BaseException) -> str:
    """Where an error and what caused it came from, a line for each call, without messages: those may quote texts."""
    lines: list[str] = []
    for entry, _ in zip(_family(error), range(_MOST), strict=False):
        lines.append(type(entry).__qualname__)
        frames = list(traceback.walk_tb(entry.__traceback__))[-_MOST:]
        lines += [f"  {frame.f_code.co_filename}:{line} in {frame.f_code.co_qualname}" for frame, line in frames]
    return PROCESS_REDACTOR.text("\n".join(lines))


class RedactingFilter(logging.Filter):
    """For every log handler: messages without secrets, and tracebacks as far as the storage policy allows.

    The policy is the record's own (`extra={"storage": ...}`), else the one given.
    """

    def __init__(self, redactor: Redactor, storage: StoragePolicy | None = None) -> None:
        super().__init__()
        self._redactor = redactor
        self._storage = storage or HeadersOnly()

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, cleaned."""
        record.msg, record.args = self._redactor.text(record.getMessage()), None
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            storage = cast(StoragePolicy, vars(record).get("storage", self._storage))
            record.exc_text = self._redactor.text(describe_error(error, storage))
        # The handler would format it again, with everything in it.
        record.exc_info = None
        if record.stack_info:
            record.stack_info = self._redactor.text(record.stack_info)
        return True


def log_filter() -> RedactingFilter:
    """For handlers of a whole process: knows the session tokens of all that runs in it, and shapes of keys."""
    return RedactingFilter(PROCESS_REDACTOR)


def log_text(error: BaseException, storage: StoragePolicy | None = None) -> str:
    """An error as a log may have it: without secrets of a known shape, and without texts unless they may be stored."""
    return PROCESS_REDACTOR.text(describe_error(error, storage or HeadersOnly()))
