"""`tertulia eval report`: shows results that were written before, as a table or as a page."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tertulia.cli.evals.tables import write_failures, write_summary
from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.output.page_path import PagePath
from tertulia.cli.output.terminal import TerminalOutput, json_line
from tertulia.evals.report.html import html_report
from tertulia.evals.results import read_results
from tertulia.evals.summary import summarise

_MORE = """
\b
Examples:
  tertulia eval report eval-evals.jsonl
  tertulia eval report eval-evals.jsonl --html report.html
"""


@click.command("report", epilog=_MORE)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--html", "html_file", metavar="FILE", type=PagePath(), help="A page.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON, one candidate a line.")
@global_flags
@click.pass_obj
def command(flags: GlobalFlags, *, file: Path, html_file: Path | None, as_json: bool) -> int:
    """Show results again, or write them as a page."""
    records = read_results(file)
    out = TerminalOutput(sys.stdout, flags.load().environment.variables)
    if html_file is not None:
        html_file.write_text(html_report(records), encoding="utf-8")
        out.line(f"written: {html_file}")
    elif as_json:
        for row in summarise(records):
            out.write(json_line(row).decode())
    else:
        write_summary(out, records)
        write_failures(out, records)
    return 0
