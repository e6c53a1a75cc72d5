"""`tertulia sessions`: lists, removes, sweeps and forks stored sessions. `show`, `export`, `replay` are beside it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags, verb_group, whole_number
from tertulia.cli.output.progress import ProgressBar
from tertulia.cli.output.tables import format_age, format_count, format_size, write_columns
from tertulia.cli.output.terminal import StyledText, TerminalOutput, json_line
from tertulia.cli.session_lookup import LAST, find_stored_session, with_session_argument
from tertulia.cli.sessions.export import export
from tertulia.cli.sessions.replay import find_stored_conversation, replay
from tertulia.cli.sessions.show import session_fields, shorten_error, show
from tertulia.errors import TertuliaError
from tertulia.events.clock import SystemClock
from tertulia.protocol.ids import ItemId
from tertulia.rollout.sqlite.session_index import SessionEntry, list_sessions
from tertulia.rollout.sqlite.summaries import SearchHit, SessionSummary, search, summary, summary_of
from tertulia.rollout.sweep.retention import HomeSweepResult
from tertulia.session.conversations import ROOT
from tertulia.session.resume.fork import fork_session
from tertulia.session.resume.retention_sweep import preview_all, sweep_all
from tertulia.session.settings.settings import LoadedSettings

_MORE = """
\b
Examples:
  tertulia sessions ls
  tertulia sessions show --last
  tertulia sessions replay 3f2a --verify
  tertulia sessions export --last -o session.jsonl
"""
_MORE_LS = """
\b
Examples:
  tertulia sessions ls
  tertulia sessions ls --search "release notes"
  tertulia sessions ls --all --json | jq -r .session_id
"""
_MORE_RM = """
\b
Examples:
  tertulia sessions rm 3f2a
  tertulia sessions rm 3f2a 81bc --yes
  tertulia sessions rm --last
"""
_MORE_FORK = """
\b
Examples:
  tertulia sessions fork --last
  tertulia sessions fork 3f2a --at 2
  tertulia resume $(tertulia sessions fork 3f2a --conversation 81bc)
"""
_MORE_SWEEP = """
\b
Examples:
  tertulia sessions sweep
  tertulia sessions sweep --dry-run -c retention.max_age_days=30
  tertulia sessions sweep -c retention.max_total_mb=500 -c retention.ttl_action=delete
"""
_USUAL = 20
_SHORT = 8


_ABOUT = """List, show, replay, fork, export and remove stored sessions.

An ID may be shortened to its first characters, at least 4, if no other session begins with them.
"""
command = verb_group("sessions", _ABOUT, _MORE)


for _act in (show, export, replay):
    command.add_command(_act)


# ---- ls


@command.command("ls", epilog=_MORE_LS)
@click.option("--limit", metavar="N", type=whole_number(1), default=_USUAL, help="Only the newest N; 20 by default.")
@click.option("every", "--all", is_flag=True, help="All of them.")
@click.option("text", "--search", metavar="TEXT", help="Only messages with this text, in upper or lower case.")
@click.option("as_json", "--json", is_flag=True, help="One JSON object a line.")
@global_flags
@click.pass_obj
def ls(flags: GlobalFlags, *, limit: int, every: bool, text: str | None, as_json: bool) -> int:
    """Show the stored sessions, the newest first.

    Only what is stored can be shown and searched: a session with headers-only storage has times and numbers.
    """
    loaded = flags.load()
    home = loaded.environment.home
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    most = None if every else limit
    if text is not None:
        _write_matches(out, islice(search(home, text, most or sys.maxsize), most), as_json=as_json)
        return 0
    notes = TerminalOutput(sys.stderr, loaded.environment.variables)
    with ProgressBar(notes, "reading sessions") as bar:
        entries = list_sessions(home, progress=bar)
        shown: list[SessionSummary] = []
        for entry in entries[:most]:
            bar(len(shown), len(entries[:most]))
            shown.append(summary_of(home, entry))
    if as_json:
        for session in shown:
            sys.stdout.buffer.write(json_line(session_fields(session)))
        return 0
    if not entries:
        out.line(f"No session is stored yet in {home}.")
        return 0
    _write_list(out, shown, {entry.id for entry in entries})
    if len(entries) > len(shown):
        out.line((f"{len(entries) - len(shown):,} older ones are not shown; --all shows them", "dim"))
    return 0


def _write_list(out: TerminalOutput, shown: Sequence[SessionSummary], ids: set[str]) -> None:
    now, length = SystemClock().now(), _unique_length(ids)
    rows: list[list[StyledText]] = []
    for session in shown:
        entry = session.entry
        when: StyledText = ("in use", "green") if session.held else format_age(now - entry.updated)
        conversations = f"{entry.conversations:,}" if entry.trouble is None else "?"
        rows.append(
            [
                (entry.id[:length], "bold"),
                when,
                conversations,
                format_size(entry.size),
                entry.model or "",
                _about(session),
            ]
        )
    head = ("ID", "LAST USED", "CONVERSATIONS", "SIZE", "MODEL", "ABOUT")
    write_columns(out, head, rows, right=frozenset({"CONVERSATIONS", "SIZE"}))


def _about(session: SessionSummary) -> StyledText:
    if session.entry.trouble is not None:
        return shorten_error(session.entry.trouble), "red"
    if session.entry.purpose is not None:
        return f"the {session.entry.purpose}, a session of no person", "dim"
    text = session.title or session.preview
    return text if text is not None else ("no text is stored", "dim")


def _unique_length(ids: Iterable[str]) -> int:
    """How many characters tell each id from all others."""
    length, distinct = _SHORT, set(ids)
    while len({id[:length] for id in distinct}) < len(distinct):
        length += 1
    return length


def _write_matches(out: TerminalOutput, matches: Iterable[SearchHit], *, as_json: bool) -> None:
    hits = list(matches)
    if as_json:
        for hit in hits:
            fields = {"session_id": hit.session_id, "n": hit.n, "ts": hit.ts}
            sys.stdout.buffer.write(json_line({**fields, "type": hit.type, "excerpt": hit.excerpt}))
    elif not hits:
        out.line("No stored text contains this.")
    else:
        now = SystemClock().now()
        rows = [_match_row(hit, now) for hit in hits]
        write_columns(out, ("ID", "WHEN", "TYPE", "TEXT"), rows)


def _match_row(hit: SearchHit, now: float) -> list[StyledText]:
    return [(hit.session_id[:_SHORT], "bold"), format_age(now - hit.ts), hit.type, hit.excerpt]


# ---- rm


@command.command("rm", epilog=_MORE_RM)
@click.argument("ids", metavar="ID...", nargs=-1)
@click.option("--last", is_flag=True, help=LAST)
@click.option("sure", "-y", "--yes", is_flag=True, help="Do not ask.")
@global_flags
@click.pass_obj
def rm(flags: GlobalFlags, *, ids: Sequence[str], last: bool, sure: bool) -> int:
    """Delete sessions for good.

    It asks first; without a terminal it wants --yes. A session that is in use is not deleted.
    """
    if not sure and not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("a session is deleted for good, and there is no terminal to ask on: give --yes")
    loaded = flags.load()
    home, out = loaded.environment.home, TerminalOutput(sys.stdout, loaded.environment.variables)
    wanted = [find_stored_session(loaded, None, last=True)] if last and not ids else _find_all(loaded, ids, last=last)
    if not sure and not _confirm(out, home, wanted):
        out.line("Nothing was deleted.")
        return 0
    failed = 0
    for session_id in wanted:
        try:
            _delete(loaded, session_id)
        except TertuliaError as error:
            failed = 1
            TerminalOutput(sys.stderr, loaded.environment.variables).line(f"tertulia: {error.message}")
        else:
            out.line(f"{session_id} is deleted")
    return failed


def _delete(loaded: LoadedSettings, session_id: str) -> None:
    # Imported here: no other verb of this file needs it.
    from tertulia.session.resume.deletion import delete_session

    asyncio.run(delete_session(loaded.environment, loaded.settings, SystemClock(), session_id))


def _find_all(loaded: LoadedSettings, ids: Sequence[str], *, last: bool) -> list[str]:
    if not ids:
        find_stored_session(loaded, None, last=False)
    # Each once, and all of them before any is deleted.
    return list(dict.fromkeys(find_stored_session(loaded, word, last=last) for word in ids))


def _confirm(out: TerminalOutput, home: Path, wanted: Sequence[str]) -> bool:
    entries: list[SessionEntry] = []
    for session_id in wanted:
        session = summary(home, session_id)
        entries.append(session.entry)
        about = session.title or session.preview or "no text is stored"
        out.line(
            f"  {session_id[:_SHORT]}  {format_count(session.entry.conversations, 'conversation')}  ", (about, "dim")
        )
    freed = format_size(sum(entry.size for entry in entries))
    return click.confirm(f"Delete {format_count(len(wanted), 'session')} ({freed}) for good?", default=False)


# ---- sweep


@command.command("sweep", epilog=_MORE_SWEEP)
@click.option("dry_run", "--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@global_flags
@click.pass_obj
def sweep(flags: GlobalFlags, *, dry_run: bool) -> int:
    """Remove what has expired, and what there is too much of.

    Every new session does this first: texts whose ttl has passed are removed, then `[retention]` is applied to all
    sessions together, and to the checkpoints of each workspace. A session in use is swept by the process that has it.
    """
    # Imported here: no other verb of this file needs it.
    from tertulia.cli.sessions.sweep_files import sweep_files

    loaded = flags.load()
    environment = loaded.environment
    act = preview_all if dry_run else sweep_all
    out, notes = TerminalOutput(sys.stdout, environment.variables), TerminalOutput(sys.stderr, environment.variables)
    with ProgressBar(notes, "sweeping sessions") as bar:
        swept = asyncio.run(act(environment.home, loaded.settings, SystemClock(), bar))
        files = sweep_files(loaded, SystemClock().now(), dry_run=dry_run)
    counts = [*_counts(swept), *files.counts]
    for line in _preview_lines(swept, counts) if dry_run else _sweep_lines(swept, counts):
        out.line(line)
    troubles = (*swept.troubles, *files.troubles)
    for error in troubles:
        notes.line(f"tertulia: {error}")
    return 1 if troubles else 0


def _counts(swept: HomeSweepResult) -> list[str]:
    counts = ((swept.bodies, "text"), (swept.rows, "record"), (len(swept.removed), "session"))
    return [format_count(count, noun) for count, noun in counts if count]


def _preview_lines(swept: HomeSweepResult, due: Sequence[str]) -> Iterable[str]:
    yield f"{', '.join(due)} would be removed; nothing was." if due else "Nothing is due."
    for session_id in swept.removed:
        yield f"  {session_id} would go"
    for session_id in swept.skipped:
        yield f"  {session_id} is in use: its owner sweeps it"


def _sweep_lines(swept: HomeSweepResult, counts: Sequence[str]) -> Iterable[str]:
    done = [f"{count} removed" for count in counts]
    yield ", ".join(done) if done else "Nothing was due."
    for session_id in swept.removed:
        yield f"  {session_id} is gone"
    for session_id in swept.skipped:
        yield f"  {session_id} is in use: its owner sweeps it"


# ---- fork


@command.command("fork", epilog=_MORE_FORK)
@with_session_argument
@click.option("--at", metavar="ROUND|ITEM", help="Up to the end of a round (the first is 1), or up to an item's id.")
@click.option(
    "--conversation", metavar="C", default=ROOT, help="The conversation whose history is taken; `root` by default."
)
@global_flags
@click.pass_obj
def fork(flags: GlobalFlags, *, which: str | None, last: bool, at: str | None, conversation: str) -> int:
    """Begin a new session with the history of a stored one.

    Prints the new id. The conversation becomes the root there, with its instructions, rights and storage policy; what
    was not stored is not there either. The old session stays as it is, and may be in use.
    """
    loaded = flags.load()
    environment = loaded.environment
    session_id = find_stored_session(loaded, which, last=last)
    forked = asyncio.run(
        fork_session(
            environment,
            loaded.settings,
            SystemClock(),
            session_id,
            conversation_id=find_stored_conversation(environment.home, session_id, conversation),
            at=_point(at),
        )
    )
    TerminalOutput(sys.stdout, environment.variables).line(forked)
    return 0


def _point(at: str | None) -> ItemId | int | None:
    if at is None:
        return None
    # Ids of items have 16 characters: so long a number is not that of a round.
    return int(at) if at.isascii() and at.isdigit() and len(at) < 10 else ItemId(at)
