"""`tertulia bench compare`: the same work done by Tertulia and by its peers, from a source checkout."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags, whole_number
from tertulia.cli.output.terminal import TerminalOutput


def find_benchmarks(source: Path) -> Path:
    """The folder `bench` of the checkout that this source file belongs to; a usage error where there is none."""
    checkout = source.parents[4]
    folder = checkout / "bench"
    if not (folder.is_dir() and (checkout / "pyproject.toml").is_file()):
        raise click.UsageError("benchmarks come with a source checkout, and this is an installed package")
    return folder


_MORE = """
\b
Work:
  W1 turns as the history grows     W5 delegation
  W2 many conversations             W6 a tool that returns 10 MB
  W3 MCP calls, server processes    W7 cancelling a turn
  W4 import, size, dependencies     W8 a hundred children at once

\b
Examples:
  tertulia bench compare --quick
  tertulia bench compare --peers tertulia,langgraph --work W1,W4
  tertulia bench compare --json compare.json --html compare.html
"""


def _names(context: click.Context, parameter: click.Parameter, value: str | None) -> list[str]:
    return [name for name in (value or "").replace(" ", "").split(",") if name]


@click.command("compare", epilog=_MORE)
@click.option("--peers", metavar="A,B", callback=_names, help="Only these, and the bare HTTP client.")
@click.option("--work", "works", metavar="W1,W4", callback=_names, help="Only these.")
@click.option("--quick", is_flag=True, help="Less of everything: half an hour instead of about one.")
@click.option("--rounds", metavar="N", type=whole_number(1, 100), help="How often all is measured; 3 unless set.")
@click.option("--json", "json_file", metavar="FILE", help="Write everything that was measured to this file.")
@click.option("--html", "html_file", metavar="FILE", help="Write a report with plots to this file.")
@global_flags
@click.pass_context
def command(context: click.Context, **options: Any) -> int:
    """Compare Tertulia with its peers (from a source checkout).

    Peers are installed once, in environments of their own below your cache folder, in the versions that the checkout
    locks. All do the same work against one mock provider on this machine, and nothing else is reached. Every figure is
    also given as a ratio to a bare HTTP client that sends the same bytes.
    """
    variables = context.find_root().ensure_object(GlobalFlags).load().environment.variables
    place = str(find_benchmarks(Path(__file__)).parent)
    if place not in sys.path:
        sys.path.append(place)
    compare = importlib.import_module("bench.compare.main")
    files = {name: _writable(options.pop(name)) for name in ("json_file", "html_file")}
    out, progress = TerminalOutput(sys.stdout, variables), TerminalOutput(sys.stderr, variables)
    try:
        compare.run(out, progress, **options, **files)
    except compare.UnknownNameError as error:
        raise click.UsageError(str(error)) from None
    return 0


def _writable(name: str | None) -> Path | None:
    """The file, made now: an hour later is too late to learn that it cannot be written."""
    if name is None:
        return None
    path = Path(name)
    try:
        path.open("a").close()
    except OSError as error:
        raise click.UsageError(f"{name} cannot be written: {error.strerror}") from None
    return path
