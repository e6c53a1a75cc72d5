"""An exception as a text for logs and crash reports, with as much in it as the storage policy allows."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import cast

from tertulia.protocol.storage import Full, StoragePolicy

_MOST = 32


def described(error: BaseException, storage: StoragePolicy) -> str:
    """The whole traceback where texts may be stored for good, else types and places of code only. Not redacted yet."""
    # Nobody sweeps a log: what has to go after a while may not get there.
    if isinstance(storage, Full):
        return "".join(traceback.format_exception(error)).rstrip()
    return "\n".join(_line(each) for each, _ in zip(_family(error), range(_MOST), strict=False))


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
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        waiting.append(each.__cause__ or each.__context__)
        if isinstance(each, BaseExceptionGroup):
            waiting += reversed(cast("BaseExceptionGroup[BaseException]", each).exceptions)
