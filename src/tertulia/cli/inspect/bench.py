"""`tertulia bench`: runs the benchmarks of a source checkout and compares them with their targets."""

from __future__ import annotations

import importlib
import operator
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec.structs import asdict

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.inspect.bench_compare import find_benchmarks
from tertulia.cli.output.terminal import StyledText, TerminalOutput

_MORE = """
\b
Examples:
  tertulia bench
  tertulia bench kernel bus
  tertulia bench --json kernel
  tertulia bench compare --help
"""

_COMPARISON = re.compile(r"(<=|>=|<|>) *([0-9][0-9,]*(?:\.[0-9]+)?)$")
_COMPARED = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}


class BenchmarkRow(msgspec.Struct, frozen=True):
    """One measurement. A module of `bench/` gives them as tuples, with or without a target."""

    name: str
    value: float
    unit: str
    target: str = ""
    """A comparison and a number, `<= 1.2`, or nothing."""

    @property
    def met(self) -> bool | None:
        """Whether the target was met; None where there is none to meet."""
        target = _COMPARISON.match(self.target)
        return None if target is None else _COMPARED[target[1]](self.value, float(target[2].replace(",", "")))


class _Bench(click.Command):
    """`bench`, in which the word `compare` is a command of its own with its own options."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args[:1] != ["compare"]:
            return super().make_context(info_name, args, parent, **extra)
        # Imported here: the other benchmarks do not need it.
        from tertulia.cli.inspect.bench_compare import command as compare

        return compare.make_context(f"{info_name} compare", args[1:], parent, **extra)


@click.command("bench", cls=_Bench, epilog=_MORE)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--json", "as_json", is_flag=True, help="Print the rows, one JSON object a line.")
@global_flags
@click.pass_obj
def command(flags: GlobalFlags, *, names: Sequence[str], as_json: bool) -> int:
    """Measure the runtime (from a source checkout).

    Without a NAME everything is measured. The exit code is 1 when a target was missed. `tertulia bench compare` sets
    the runtime against its peers.
    """
    variables = flags.load().environment.variables
    out, progress = TerminalOutput(sys.stdout, variables), TerminalOutput(sys.stderr, variables)
    folder = find_benchmarks(Path(__file__))
    chosen = _choose(names, folder)
    missed = 0
    for number, name in enumerate(chosen, 1):
        progress.line((f"{name}, {number} of {len(chosen)}", "dim"))
        for row in _measure(name, folder):
            missed += row.met is False
            if as_json:
                out.line(msgspec.json.encode({"benchmark": name, **asdict(row), "met": row.met}).decode())
            else:
                _show(row, out)
    return 1 if missed else 0


def _choose(names: Sequence[str], folder: Path) -> Sequence[str]:
    available = sorted(path.stem for path in folder.glob("[a-z]*.py"))
    unknown = [name for name in names if name not in available]
    if unknown:
        raise click.UsageError(f"there is no benchmark {unknown[0]!r}, only {', '.join(available)}")
    return names or available


def _measure(name: str, folder: Path) -> list[BenchmarkRow]:
    place = str(folder.parent)
    if place not in sys.path:
        sys.path.append(place)
    rows: list[tuple[Any, ...]] = importlib.import_module(f"{folder.name}.{name}").run()
    return [BenchmarkRow(*row) for row in rows]


def _show(row: BenchmarkRow, out: TerminalOutput) -> None:
    digits = 0 if row.value >= 1000 else 2
    measured = f"  {row.name:46} {row.value:>14,.{digits}f} {row.unit}"
    if row.met is None:
        out.line(measured)
    else:
        verdict: StyledText = ("met", "green") if row.met else ("missed", "red")
        out.line(f"{measured:76} ", (f"{row.target:10}", "dim"), verdict)
