"""`tertulia eval compare`: which tasks changed between two results, and whether that is noise."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tertulia.cli.evals.tables import write_comparison
from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.evals.comparison import compare, only_candidate
from tertulia.evals.results import RunRecord, read_results

_MORE = """
\b
Examples:
  tertulia eval compare before.jsonl after.jsonl
  tertulia eval compare results.jsonl#openai/gpt-5 results.jsonl#codex
"""


@click.command("compare", epilog=_MORE)
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@global_flags
@click.pass_obj
def command(flags: GlobalFlags, *, first: str, second: str) -> int:
    """Say which tasks changed from result A to result B, and whether that is noise.

    A and B are files of results. Where a file has several candidates, `FILE#CANDIDATE` names one. The same tasks are
    compared, in the same version, by an exact sign test (of single runs that is McNemar's test).
    """
    out = TerminalOutput(sys.stdout, flags.load().environment.variables)
    (one_name, one), (other_name, other) = _side(first), _side(second)
    if one_name == other_name:
        one_name, other_name = first, second
    write_comparison(out, compare(one, other, first_name=one_name, second_name=other_name))
    return 0


def _side(word: str) -> tuple[str, list[RunRecord]]:
    """The candidate and its runs that a word of the command line names."""
    if Path(word).exists():
        return only_candidate(read_results(Path(word)), word)
    file, _, candidate = word.partition("#")
    return only_candidate(read_results(Path(file)), file, candidate or None)
