"""What `tertulia bench compare` runs: choose, compare, show, write."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from bench.compare.environments import prepare
from bench.compare.html_report import html_report
from bench.compare.peers import LEAST, PEERS
from bench.compare.referee import Plan, Progress, Referee
from bench.compare.results import Comparison
from bench.compare.show import table_lines
from bench.compare.works import WORKS

ROUNDS = 3
_BAR = 24


class Output(Protocol):
    """The part of the program's terminal that is used here."""

    @property
    def rewritable(self) -> bool: ...
    def line(self, *pieces: str) -> None: ...
    def rewrite(self, *pieces: str) -> None: ...


class UnknownNameError(ValueError):
    """A peer or a work that does not exist; the text names those that do."""


def run(
    out: Output,
    progress: Output,
    *,
    peers: Sequence[str] = (),
    works: Sequence[str] = (),
    rounds: int | None = None,
    quick: bool = False,
    json_file: Path | None = None,
    html_file: Path | None = None,
) -> Comparison:
    """Compare the chosen peers at the chosen works, all of them where none is named."""
    chosen = _chosen("peer", {spec.name: spec for spec in PEERS}, [LEAST, *peers] if peers else ())
    plan = Plan(
        peers=chosen,
        works=_chosen("work", {work.id: work for work in WORKS}, [name.upper() for name in works]),
        rounds=rounds or ROUNDS,
        is_quick=quick,
        prepare=partial(prepare, cache=cache_folder()),
    )
    files = partial(write_files, json_file=json_file, html_file=html_file)
    comparison = Referee(plan, progress_bar(progress), interim=files).run()
    progress.rewrite("")
    for line in table_lines(comparison):
        out.line(line)
    files(comparison)
    return comparison


def write_files(comparison: Comparison, *, json_file: Path | None, html_file: Path | None) -> None:
    """Write what there is; a file of an earlier moment is replaced as a whole."""
    for file, text in (
        (json_file, lambda: json.dumps(comparison.to_json(), indent=1) + "\n"),
        (html_file, lambda: html_report(comparison)),
    ):
        if file is not None:
            new = file.with_name(f"{file.name}.new")
            new.write_text(text())
            new.replace(file)


def cache_folder() -> Path:
    """Where environments are kept: they are large, and can be made again at any time."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tertulia" / "compare"


def progress_bar(output: Output) -> Progress:
    """A bar on a terminal; elsewhere a line for every step."""

    def show(done: int, whole: int, text: str) -> None:
        if output.rewritable:
            filled = _BAR * done // whole
            output.rewrite(f"[{'#' * filled}{'.' * (_BAR - filled)}] {done:>3} of {whole}  {text}"[:100])
        else:
            output.line(f"{done + 1} of {whole}  {text}")

    return show


T = TypeVar("T")


def _chosen(what: str, available: dict[str, T], names: Sequence[str]) -> list[T]:
    unknown = [name for name in names if name not in available]
    if unknown:
        raise UnknownNameError(f"there is no {what} {unknown[0]!r}, only {', '.join(available)}")
    return [value for name, value in available.items() if not names or name in names]
