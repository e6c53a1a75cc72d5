"""A table of rows as one test: every row is tried, and a failure names those that failed.

`@each_row("text, expected", [...])` is written like `pytest.mark.parametrize` and may stand above or below it. It is
meant for rows that need no fixtures of their own; a row that starts programs or wants a folder to itself is a test.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True, slots=True)
class Large:
    """A value of a row that is made when the row runs, and gone after it: `Large(lambda: "x" * 50_000_000)`.

    What stands in a table stays in every process of a parallel run from its first moment to its last.
    """

    make: Callable[[], Any]


_Ids = Iterable[str] | Callable[[Any], object] | None


def each_row(names: str | Sequence[str], rows: Iterable[Any], ids: _Ids = None) -> Callable[[Callable[..., Any]], Any]:
    """Decorates a test that takes `names`: it runs once for each row and fails if any row does."""
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    named_rows = list(_named(columns, rows, ids))

    def decorate(test: Callable[..., Any]) -> Any:
        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def run(**others: Any) -> None:
                failures = _Failures(len(named_rows))
                for name, row in named_rows:
                    with failures.noting(name):
                        await test(**made(row), **others)
                failures.raise_first()
        else:

            @functools.wraps(test)
            def run(**others: Any) -> None:
                failures = _Failures(len(named_rows))
                for name, row in named_rows:
                    with failures.noting(name):
                        test(**made(row), **others)
                failures.raise_first()

        signature = inspect.signature(test)
        others = [parameter for name, parameter in signature.parameters.items() if name not in columns]
        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return run

    return decorate


def made(row: dict[str, Any]) -> dict[str, Any]:
    """The row with its large values."""
    return {name: value.make() if isinstance(value, Large) else value for name, value in row.items()}


class _Failures:
    """The rows of one table that failed."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._failed: list[tuple[str, Exception]] = []

    def noting(self, name: str) -> _Noting:
        """A failure inside it is that of row `name`."""
        return _Noting(self._failed, name)

    def raise_first(self) -> None:
        """The first failure, with the names of all rows that failed."""
        if self._failed:
            failure = self._failed[0][1]
            failure.add_note(
                f"failed in {len(self._failed)} of {self._rows} rows: " + "; ".join(n for n, _ in self._failed)
            )
            raise failure


class _Noting:
    def __init__(self, failed: list[tuple[str, Exception]], name: str) -> None:
        self._failed, self._name = failed, name

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        # What pytest raises to fail a test is no Exception; neither is Ctrl-C, which ends the run.
        if isinstance(error, pytest.fail.Exception):
            error = AssertionError(str(error)).with_traceback(error.__traceback__)
        if not isinstance(error, Exception):
            return False
        self._failed.append((self._name, error))
        return True


def _named(columns: list[str], rows: Iterable[Any], ids: _Ids) -> Iterator[tuple[str, dict[str, Any]]]:
    names = None if ids is None or callable(ids) else list(ids)
    for number, row in enumerate(rows):
        parameters = isinstance(row, type(pytest.param()))
        assert not (parameters and row.marks), "a row with a mark of its own is a test: use parametrize"
        values = row.values if parameters else (row,) if len(columns) == 1 else tuple(row)
        assert len(values) == len(columns), f"row {number} has {len(values)} values for {len(columns)} names"
        if callable(ids):
            name = "-".join(str(ids(value)) for value in values)
        else:
            name = (row.id if parameters else None) or (names[number] if names else None) or _short(values)
        yield f"{number} ({name})", dict(zip(columns, values, strict=True))


def _short(values: tuple[Any, ...]) -> str:
    try:
        text = ", ".join(repr(value[:60] if isinstance(value, str | bytes) else value)[:80] for value in values)
    except ValueError:  # an int of more digits than Python writes
        return "too long to be shown"
    return text if len(text) < 200 else text[:200] + "…"
