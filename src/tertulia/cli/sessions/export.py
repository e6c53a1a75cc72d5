"""`tertulia sessions export`: writes what is stored of a session as JSON lines, one a record.

The format is the export's own and has a version: it does not change when the storage does (HARDENING E2, E11).
"""

from __future__ import annotations

import os
import sys
from contextlib import closing, nullcontext
from pathlib import Path
from typing import IO, Any

import click
import msgspec

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.output.progress import ProgressBar
from tertulia.cli.output.terminal import TerminalOutput, json_line
from tertulia.cli.session_lookup import find_stored_session, with_session_argument
from tertulia.events.clock import SystemClock, Timestamps
from tertulia.protocol import records as r
from tertulia.protocol.events import Event
from tertulia.protocol.storage import storage_to_wire
from tertulia.rollout.format.record_lines import RecordLine
from tertulia.rollout.format.row_reader import RowReader
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_index import find_files
from tertulia.rollout.store import StoredRow
from tertulia.version import __version__

FORMAT = "tertulia-session"
VERSION = 1
_KINDS: dict[type[r.Record], str] = {
    r.TermsRecord: "agreed",
    r.CanvasRecord: "drawn",
    r.ToolOutputRecord: "ended",
    r.ForkRecord: "forked",
    r.NoteRecord: "noted",
    r.PlanRecord: "planned",
    r.QueuedInputRecord: "queued",
    r.RewriteRecord: "rewritten",
    r.ItemsRecord: "said",
    r.SubmissionRecord: "submitted",
}
"""What each record is called in an export. Part of the format: it does not follow the names of the classes."""
_WORK = "exporting records"
_STRIDE = 100
"""Records between two looks at the clock."""
_KEPT_ITEMS = 4_096
"""How many items of each conversation are held: events do not refer to older ones."""

_MORE = """
\b
Examples:
  tertulia sessions export --last > session.jsonl
  tertulia sessions export 3f2a -o session.jsonl
  tertulia sessions export --last | jq -r 'select(.kind == "said") | .record.items[] | .parts[]?.text'
"""


@click.command("export", epilog=_MORE)
@with_session_argument
@click.option("target", "-o", "--output", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
              help="Write a new file that only you can read, instead of standard output.")  # fmt: skip
@global_flags
@click.pass_obj
def export(flags: GlobalFlags, *, which: str | None, last: bool, target: Path | None) -> int:
    """Write a session as lines of JSON.

    The first line says what follows (`format`, `version`, `session_id`), then there is one line a record. Only what the
    storage policies have let through is there; `missing` marks what they have not.
    """
    loaded = flags.load()
    home = loaded.environment.home
    session_id = find_stored_session(loaded, which, last=last)
    file = find_files(home, session_id).db
    notes = TerminalOutput(sys.stderr, loaded.environment.variables)
    if target is None:
        # On a terminal the lines themselves show how it goes on: the bar would stand between them.
        _write(sys.stdout.buffer, session_id, file, None if sys.stdout.isatty() else ProgressBar(notes, _WORK))
        return 0
    try:
        opened = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise click.BadParameter(f"{target} is there already; name a new file", param_hint="--output") from None
    except OSError as error:
        raise click.BadParameter(f"{target} cannot be written ({error.strerror})", param_hint="--output") from None
    with open(opened, "wb") as stream:
        count = _write(stream, session_id, file, ProgressBar(notes, _WORK))
    notes.line(f"{count:,} records are in {target}")
    return 0


def _write(stream: IO[bytes], session_id: str, file: Path, bar: ProgressBar | None) -> int:
    at = Timestamps(SystemClock())
    head = {"format": FORMAT, "version": VERSION, "session_id": session_id}
    stream.write(json_line({**head, "exported_at": at(), "tertulia": __version__}))
    count = 0
    with closing(SqliteReader(file, SystemClock())) as rows, bar or nullcontext():
        last, _ = rows.ends()
        for line in RowReader(_KEPT_ITEMS).lines(rows.rows()):
            stream.write(json_line(export_line(line, at.at(line.ts))))
            count += 1
            if bar is not None and count % _STRIDE == 0:
                bar(line.n, last)
    stream.flush()
    return count


def export_line(line: RecordLine, ts: str) -> dict[str, Any]:
    """The JSON object for one record."""
    exported: dict[str, Any] = {"n": line.n, "ts": ts}
    match line.what:
        case Event() as event:
            exported |= {"kind": "event", "event": msgspec.to_builtins(event)}
        case None if line.raw is not None:
            exported |= {"kind": "unknown", "raw": _raw(line.raw)}
        case None:
            exported["kind"] = "damaged"
        case r.ModelRequestRecord() as request:
            record = msgspec.structs.asdict(request)
            tools = request.tools_json
            record["tools_json"] = tools.decode("utf-8", "backslashreplace") if tools else None
            exported |= {"kind": "asked", "record": record}
        case record:
            exported |= {"kind": _KINDS[type(record)], "record": _record(record)}
    return exported | {name: list(rows) for name in ("missing", "damaged") if (rows := getattr(line, name))}


def _record(record: r.Record) -> dict[str, Any]:
    """The fields of a record, storage policies in their usual spelling."""
    fields: dict[str, Any] = msgspec.to_builtins(record)
    if isinstance(record, r.TermsRecord):
        fields["storage"] = storage_to_wire(record.storage)
    if isinstance(record, r.ItemsRecord):
        for item, plain in zip(record.items, fields["items"], strict=True):
            if item.storage is not None:
                plain["storage"] = storage_to_wire(item.storage)
    return fields


def _raw(row: StoredRow) -> dict[str, Any]:
    texts = {"header": row.header, "body": row.body}
    shown = {name: None if text is None else text.decode("utf-8", "backslashreplace") for name, text in texts.items()}
    return {"kind": row.kind, "type": row.type, **shown}
