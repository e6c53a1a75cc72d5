"""`tertulia sessions replay`: plays a stored session, or verifies its prompts against what was sent (S002-15)."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import ClassVar

import click
from msgspec.structs import asdict, replace

from tertulia.cli.exec.json_output import JsonView
from tertulia.cli.exec.text_output import TextView
from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.output.page_path import PagePath
from tertulia.cli.output.tables import conversation_name, format_count
from tertulia.cli.output.terminal import TerminalOutput, json_line, shorten
from tertulia.cli.session_lookup import find_stored_session, with_session_argument
from tertulia.cli.stop_signals import INTERRUPTED, on_stop_signal
from tertulia.errors import NotFoundError, StorageError
from tertulia.events.clock import SystemClock, Timestamps
from tertulia.protocol import events as e
from tertulia.protocol.ids import ConversationId, ItemId
from tertulia.protocol.items import AssistantMessage, UserMessage
from tertulia.protocol.records import ItemsRecord, TermsRecord
from tertulia.rollout.format.record_lines import RecordLine
from tertulia.rollout.format.row_reader import RowReader
from tertulia.rollout.sqlite.head import Proof
from tertulia.rollout.sqlite.ownership import is_held
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_index import find_files
from tertulia.session.conversations import ROOT
from tertulia.session.resume.fork import read_recorded_state
from tertulia.session.resume.replay_verification import RequestVerdict, verify_requests


class PrintedTranscript(TextView):
    """Takes the lines of a record. Messages of the root, or of one conversation, are shown in full, others in short."""

    def __init__(self, out: TerminalOutput, conversation_id: ConversationId | None = None) -> None:
        super().__init__(out, out, ())
        self._only = conversation_id
        self._begun = False
        self._unsaid: dict[ItemId, tuple[ConversationId, str]] = {}
        """Answers in the record without their event so far. In a fork they have none."""
        if conversation_id is not None:
            self._root = conversation_id

    def take(self, line: RecordLine) -> None:
        """Print one line of a record, if it is of use to a person."""
        match line.what:
            case e.Event() as event:
                if self._only in (None, event.conversation_id) or isinstance(event.data, e.SessionConfigured):
                    self.show(event)
            case ItemsRecord() as record:
                if self._only in (None, record.conversation_id):
                    self._hear(record)
            case TermsRecord(conversation_id=id, place=place, terms=terms):
                self._names[id] = conversation_name(id, terms.get("title"), place.get("parent_id"))
            case _:
                pass

    def finish(self) -> None:
        """Print the answers that no event followed; no line follows."""
        unsaid, self._unsaid = self._unsaid, {}
        for conversation_id, text in unsaid.values():
            self._speak(conversation_id, text)

    def _hear(self, record: ItemsRecord) -> None:
        self.finish()
        for item in record.items:
            if isinstance(item, AssistantMessage):
                self._unsaid[item.id] = (record.conversation_id, item.text)
            elif isinstance(item, UserMessage) and not item.injected:
                if record.conversation_id == self._root:
                    self._note("you", "bold", item.text)
                else:
                    self._note(self._name(record.conversation_id), "magenta", f"was asked {shorten(item.text)}")

    def _again(self, event: e.Event, data: e.SessionConfigured) -> None:
        self.finish()
        if self._only is None:
            self._root = data.root_conversation_id
        if self._begun:
            self._note("resumed", "dim", f"{event.ts} with {data.model}")
        self._begun = True

    def _spoke(self, event: e.Event, data: e.AgentMessage) -> None:
        _, text = self._unsaid.pop(data.item_id, (None, ""))
        self._speak(event.conversation_id, data.text or text or "[not stored]")

    def _speak(self, conversation_id: ConversationId | None, text: str) -> None:
        if conversation_id == self._root:
            self._break_line()
            self._out.line(text)
        else:
            self._note(self._name(conversation_id), "magenta", f"said {shorten(text)}")

    def _stopped(self, event: e.Event, data: e.TurnAborted) -> None:
        if data.reason != "replaced":
            self._note("stopped", "red", data.reason)

    _showers: ClassVar[Mapping[type[e.EventData], Callable[..., None]]] = {
        **TextView._showers,
        e.SessionConfigured: _again,
        e.AgentMessage: _spoke,
        e.TurnAborted: _stopped,
    }


_MORE = """
\b
Examples:
  tertulia sessions replay --last
  tertulia sessions replay 3f2a --speed 1
  tertulia sessions replay 3f2a --json --conversation root
  tertulia sessions replay --last --verify
  tertulia replay 3f2a --model openai/gpt-5 --html both.html

\b
Exit codes:
  0    played; with --verify: no prompt came out different, and all records are there
  1    it cannot be read; with --verify: some did, or a record is damaged or missing;
       with --model: not every message was answered
  2    usage
  130  stopped
"""
LONGEST_PAUSE_S = 3.0
"""A longer pause in the record is shortened to this."""
_LOOK_EVERY_S = 0.2


@click.command("replay", epilog=_MORE)
@with_session_argument
@click.option("--speed", metavar="X", type=float, help="1 is as it was, 2 twice as fast; pauses are cut to 3 s.")
@click.option("as_json", "--json", is_flag=True, help="The lines of `exec --json`.")
@click.option("--conversation", metavar="C", help="Only this one: `root`, an id, or the beginning of one.")
@click.option("--follow", is_flag=True, help="Go on with what its owner adds, until it ends.")
@click.option("prove", "--verify", is_flag=True, help="Rebuild every prompt from the record and compare it.")
@click.option("html", "--html", metavar="FILE", type=PagePath(),
              help="With --model: write both transcripts as a page.")  # fmt: skip
@click.option("files", "--files", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="With --model: begin with these files, not those of the first checkpoint.")  # fmt: skip
@global_flags
@click.pass_obj
def replay(
    flags: GlobalFlags,
    *,
    which: str | None,
    last: bool,
    speed: float | None,
    as_json: bool,
    conversation: str | None,
    follow: bool,
    prove: bool,
    html: Path | None,
    files: Path | None,
) -> int:
    """Play a stored session again, or ask another model the same.

    As fast as it can be read, or at --speed. Runs nothing and changes nothing, also while the session is in use.

    With --model the messages of its user are sent to that model, in a copy of the files that the session began with,
    and both transcripts are shown. That is real work: it costs tokens, and MCP servers are called.
    """
    others = (speed is not None, conversation is not None, follow, prove)
    _check_options(flags, plain=any(others), rerun=html is not None or files is not None)
    if speed is not None and not 0 < speed < math.inf:
        raise click.BadParameter("must be a positive number", param_hint="--speed")
    loaded = flags.load()
    home = loaded.environment.home
    session_id = find_stored_session(loaded, which, last=last)
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    if "model" in flags.values:
        # Imported here: to play a record needs none of it.
        from tertulia.cli.sessions.replay_with import ReplayRequest, replay_with_model

        return replay_with_model(ReplayRequest(loaded, session_id, files, html, as_json))
    if prove:
        return _verify(find_files(home, session_id).db, out, as_json=as_json)
    only = None if conversation is None else find_stored_conversation(home, session_id, conversation)
    transcript = PrintedTranscript(out, only)
    take = _json_taker(only) if as_json else transcript.take
    ended = asyncio.run(play_record(home, session_id, take, speed=speed, follow=follow))
    transcript.finish()
    return 0 if ended else INTERRUPTED


command = replay
"""Under the name that verbs have: `tertulia replay` is the same."""


def _check_options(flags: GlobalFlags, *, plain: bool, rerun: bool) -> None:
    """Refuse options that would have no effect."""
    if "model" in flags.values and plain:
        raise click.UsageError("--speed, --conversation, --follow and --verify play the record; leave out --model")
    if "model" not in flags.values and rerun:
        raise click.UsageError("--html and --files go with --model, which sends the messages to another model")


def find_stored_conversation(home: Path, session_id: str, word: str) -> ConversationId:
    """The id of the conversation that is named by `root` or the beginning of its id."""
    past = read_recorded_state(home, session_id)
    if word == ROOT:
        return past.identity()[1]
    fitting = [id for id in past.conversations if id.startswith(word)]
    if len(fitting) != 1:
        problem = "no conversation" if not fitting else f"more than one conversation ({len(fitting)})"
        raise NotFoundError(f"{problem} of session {session_id} begins with {word[:64]!r}")
    return fitting[0]


def _json_taker(only: ConversationId | None) -> Callable[[RecordLine], None]:
    view = JsonView(sys.stdout.buffer, ())
    started = False

    def take(line: RecordLine) -> None:
        nonlocal started
        event = line.what
        if not isinstance(event, e.Event):
            return
        if isinstance(event.data, e.SessionConfigured):
            # One thread, however often the session was resumed.
            if not started:
                root = only or event.data.root_conversation_id
                view.show(replace(event, data=replace(event.data, root_conversation_id=root)))
            started = True
        elif only in (None, event.conversation_id):
            view.show(event)

    return take


# ---- --verify


def _verify(file: Path, out: TerminalOutput, *, as_json: bool) -> int:
    counts = {"same": 0, "different": 0, "unknown": 0}
    damage, at = list[int](), Timestamps(SystemClock()).at
    with closing(SqliteReader(file, SystemClock())) as rows:
        for verdict in verify_requests(_collect_damage(damage, RowReader().lines(rows.rows()))):
            counts[verdict.outcome] += 1
            if as_json:
                sys.stdout.buffer.write(json_line({**asdict(verdict), "ts": at(verdict.ts)}))
            elif verdict.outcome != "same":
                _write_verdict(out, verdict)
        proof = rows.proof()
    if not as_json:
        _write_counts(out, counts)
        _write_end(out, proof)
    if damage:
        raise StorageError(
            f"{file}: {format_count(len(damage), 'record')} cannot be read, so not every request can be verified"
        )
    if proof.faults:
        raise StorageError(f"{file}: {'; '.join(proof.faults)}", file=str(file), kind="incomplete")
    return 1 if counts["different"] else 0


def _write_end(out: TerminalOutput, proof: Proof) -> None:
    """Write what is not proved about the end of the record, though it is no fault."""
    if proof.uncovered:
        what = format_count(proof.uncovered, "record")
        out.line(f"{what} came after the last answer: that no more followed is not proved.")


def _collect_damage(damage: list[int], lines: Iterable[RecordLine]) -> Iterator[RecordLine]:
    for line in lines:
        damage.extend(line.damaged)
        yield line


def _write_verdict(out: TerminalOutput, verdict: RequestVerdict) -> None:
    word, style = ("different", "red") if verdict.outcome == "different" else ("unknown", "yellow")
    place = f"  record {verdict.n}, conversation {verdict.conversation_id[:8]}, task {verdict.task_id[:8]}: "
    out.line((f"{word:9}", style), place, verdict.because)


def _write_counts(out: TerminalOutput, counts: dict[str, int]) -> None:
    total = sum(counts.values())
    if not total:
        out.line("This session has no record of a request to a model: there is no prompt to compare.")
        return
    compared = total - counts["unknown"]
    style = "red" if counts["different"] else "green"
    were = "it was" if compared == 1 else "they were"
    out.line((f"{counts['same']} of {format_count(compared, 'prompt')}", style), f" came out as {were} sent.")
    if counts["different"]:
        out.line((f"{format_count(counts['different'], 'prompt')} came out different.", "red"))
    if counts["unknown"]:
        what = format_count(counts["unknown"], "prompt")
        out.line(f"{what} cannot be rebuilt: not all that was sent is stored, or stored as it was.")


# ---- playing a record


async def play_record(
    home: Path, session_id: str, show: Callable[[RecordLine], None], *, speed: float | None = None, follow: bool = False
) -> bool:
    """Show every line of a record.

    Args:
        speed: 1 is as fast as it was recorded, None as fast as it can be read.
        follow: go on with what is added, until no process owns the session.

    Returns:
        False if a signal stopped it before the end.
    """
    files = find_files(home, session_id)
    stopped = asyncio.Event()
    with on_stop_signal(stopped.set), closing(SqliteReader(files.db, SystemClock())) as rows:
        player = _Player(rows, show, stopped, speed)
        await player.play()
        while follow and not stopped.is_set() and is_held(files):
            await player.pause(_LOOK_EVERY_S)
            await player.play()
        if follow:
            # What was written between the last look and the owner's end.
            await player.play()
    return not stopped.is_set()


class _Player:
    def __init__(
        self, rows: SqliteReader, show: Callable[[RecordLine], None], stopped: asyncio.Event, speed: float | None
    ) -> None:
        self._rows = rows
        self._reader = RowReader()
        self._show = show
        self._stopped = stopped
        self._speed = speed
        self._last: float | None = None

    async def play(self) -> None:
        """Show what was added since the last call."""
        for line in self._reader.lines(self._rows.rows(self._reader.known.last_n)):
            await self._wait_for(line)
            if self._stopped.is_set():
                return
            self._show(line)

    async def pause(self, seconds: float) -> None:
        """Wait, but not longer than until a signal."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), seconds)

    async def _wait_for(self, line: RecordLine) -> None:
        last, self._last = self._last, line.ts
        if self._speed is None or last is None:
            # So that a signal can be handled.
            await asyncio.sleep(0)
        else:
            await self.pause(min(max(line.ts - last, 0) / self._speed, LONGEST_PAUSE_S))
