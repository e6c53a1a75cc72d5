"""`tertulia checkpoints`: lists the recorded states of this directory."""

from __future__ import annotations

import sys

import click
import msgspec

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.output.tables import format_age, write_columns
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.cli.session_lookup import SHOWN_ID
from tertulia.cli.undo import stored_manifest
from tertulia.events.clock import SystemClock
from tertulia.session.checkpoints.windows import Window
from tertulia.session.settings.checkpoint_table import checkpoints_from_wire, why_no_checkpoints

_MORE = """
\b
Examples:
  tertulia checkpoints
  tertulia -C ~/project checkpoints --json
"""


@click.command("checkpoints", epilog=_MORE)
@click.option("as_json", "--json", is_flag=True, help="One JSON object a line.")
@click.option("--limit", type=click.IntRange(min=1), default=30, show_default=True, help="The newest so many.")
@global_flags
@click.pass_obj
def command(flags: GlobalFlags, *, as_json: bool, limit: int) -> int:
    """List the recorded states of the files here, the newest first.

    Each is the state before a task that wrote, or before an undo: `tertulia undo --to ID` goes back to it.
    """
    loaded = flags.load()
    windows = sorted(stored_manifest(loaded).windows, key=lambda window: -window.began)[:limit]
    if as_json:
        for window in windows:
            sys.stdout.buffer.write(msgspec.json.encode(window) + b"\n")
        return 0
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    if not windows:
        options = checkpoints_from_wire(loaded.settings.checkpoints)
        out.line(why_no_checkpoints(options, loaded.environment.variables) or "nothing is recorded here yet")
        return 0
    now = SystemClock().now()
    head = ("ID", "AGE", "SESSION", "CAUSE", "FILES", "LINES", "STATE")
    write_columns(out, head, [_row(window, now) for window in windows], right=frozenset({"FILES"}))
    return 0


def _row(window: Window, now: float) -> tuple[str, ...]:
    state = "undone" if window.undone else "cut short" if window.cut else "open" if window.after is None else ""
    age, lines = format_age(now - window.began), f"+{window.added} -{window.removed}"
    return (window.id, age, window.session_id[:SHOWN_ID], window.cause, str(window.files), lines, state)
