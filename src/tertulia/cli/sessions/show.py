"""`tertulia sessions show`: one stored session, its conversations, its last messages, and what is not stored."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from tertulia.cli.global_flags import GlobalFlags, global_flags, whole_number
from tertulia.cli.output.tables import (
    ConversationRow,
    conversation_name,
    format_age,
    format_count,
    format_size,
    write_tree,
)
from tertulia.cli.output.terminal import TerminalOutput, escape_invisible, shorten
from tertulia.cli.session_lookup import find_stored_session, with_session_argument
from tertulia.events.clock import SystemClock, Timestamps
from tertulia.history.segment import is_message
from tertulia.protocol.items import AssistantMessage, UserMessage
from tertulia.protocol.storage import WireStorage, storage_to_wire
from tertulia.rollout.sqlite.session_files import SessionFiles
from tertulia.rollout.sqlite.summaries import SessionSummary, summary
from tertulia.session.resume.fork import read_recorded_state
from tertulia.session.resume.recorded_state import RecordedConversation, RecordedState
from tertulia.session.resume.terms_codec import RecordedTerms, read_terms

_MORE = """
\b
Examples:
  tertulia sessions show --last
  tertulia sessions show 3f2a --messages 20
  tertulia sessions show 3f2a --json | jq .conversations
"""
_MESSAGES = 6


@click.command("show", epilog=_MORE)
@with_session_argument
@click.option(
    "--messages",
    metavar="N",
    type=whole_number(0),
    default=_MESSAGES,
    help="How many of the last messages; 6 by default.",
)
@click.option("as_json", "--json", is_flag=True, help="One JSON object.")
@global_flags
@click.pass_obj
def show(flags: GlobalFlags, *, which: str | None, last: bool, messages: int, as_json: bool) -> int:
    """Show a session: its conversations and its last messages.

    Shows what is stored, and what is not and why. Changes nothing, also while the session is in use.
    """
    loaded = flags.load()
    home = loaded.environment.home
    session = summary(home, find_stored_session(loaded, which, last=last))
    past = RecordedState() if session.entry.trouble is not None else read_recorded_state(home, session.entry.id)
    if as_json:
        shown = {
            **session_fields(session),
            "conversations": [
                _conversation(conversation, past, messages) for conversation in _shown_conversations(past)
            ],
        }
        sys.stdout.buffer.write(escape_invisible(msgspec.json.format(msgspec.json.encode(shown), indent=2)) + b"\n")
        return 0 if session.entry.trouble is None else 1
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    _write_about(out, session, past, SessionFiles(home, session.entry.id))
    if session.entry.trouble is not None:
        return 1
    out.line()
    write_tree(out, [_tree_row(conversation, past) for conversation in _shown_conversations(past)])
    _write_messages(out, past, messages)
    _write_gaps(out, past)
    return 0


def session_fields(session: SessionSummary) -> dict[str, Any]:
    """The fields of a session in JSON output."""
    entry, at = session.entry, Timestamps(SystemClock()).at
    return {
        "session_id": entry.id,
        "created_at": at(entry.created),
        "updated_at": at(entry.updated),
        "in_use": session.held,
        "model": entry.model,
        "storage_policy": entry.storage,
        "conversations": entry.conversations,
        "items": entry.items,
        "events": entry.events,
        "texts": entry.bodies,
        "bytes": entry.size,
        "title": session.title,
        "preview": session.preview,
        "cwd": session.cwd,
        "purpose": entry.purpose,
        "trouble": entry.trouble,
    }


# ---- for people


def _write_about(out: TerminalOutput, session: SessionSummary, past: RecordedState, files: SessionFiles) -> None:
    entry, now = session.entry, SystemClock().now()
    out.line((entry.id, "bold"), ("  in use by another process", "green") if session.held else "")
    at = Timestamps(SystemClock()).at
    rows = {
        "model": entry.model or "unknown",
        "started": f"{at(entry.created)[:19].replace('T', ' ')} UTC, last used {format_age(now - entry.updated)}",
        "stored": f"{format_count(entry.items, 'item')}, {format_count(entry.events, 'event')}, "
        f"{format_count(entry.bodies, 'text')}; {format_size(entry.size)}; policy {spell_storage(entry.storage)}",
        "file": str(files.db),
    }
    if past.epoch:
        rows["resumed"] = format_count(past.epoch, "time")
    if past.damaged:
        rows["damaged"] = f"{format_count(past.damaged, 'record')} cannot be read; the others can"
    if entry.trouble is not None:
        rows = {"file": rows["file"], "trouble": shorten_error(entry.trouble)}
    for name, value in rows.items():
        out.line((f"  {name:8}", "dim"), (value, "red" if name in ("trouble", "damaged") else "plain"))


def _write_messages(out: TerminalOutput, past: RecordedState, count: int) -> None:
    root = None if past.root_id is None else past.conversations.get(past.root_id)
    messages = [] if root is None else _messages(root)
    if not count or not messages:
        return
    out.line()
    earlier = f", after {format_count(len(messages) - count, 'earlier one')}" if len(messages) > count else ""
    out.line(("Last messages of root", "bold"), (earlier, "dim"))
    for item in messages[-count:]:
        out.line((f"  {_role(item):10}", "cyan"), shorten(item.text, 400) if item.text else "(pictures)")


def _write_gaps(out: TerminalOutput, past: RecordedState) -> None:
    gaps = [
        (conversation, gap) for conversation in _shown_conversations(past) if (gap := _gap(conversation)) is not None
    ]
    if gaps:
        out.line()
        out.line(("Not stored", "bold"))
    for conversation, gap in gaps:
        out.line(f"  {_name(conversation):12} {gap}")


def shorten_error(error: str) -> str:
    """An error about a session's file, without the path that is printed beside it."""
    file, _, rest = error.partition(".db")
    return f"the file{rest}" if file.startswith("/") and rest else error


# ---- what is known of a conversation


def _shown_conversations(past: RecordedState) -> Iterator[RecordedConversation]:
    return (conversation for conversation in past.conversations.values() if conversation.agreed is not None)


def _conversation(conversation: RecordedConversation, past: RecordedState, count: int) -> dict[str, Any]:
    terms = _terms(conversation)
    messages = _messages(conversation)
    return {
        "id": conversation.id,
        "parent_id": terms.parent_id,
        "title": terms.title,
        "status": _status(conversation, past),
        "depth": terms.depth,
        "message_count": len(messages),
        "model": terms.model,
        "backend": terms.backend,
        "storage_policy": _policy(conversation),
        "not_stored": _gap(conversation),
        "messages": [{"id": i.id, "role": _role(i), "text": i.text} for i in (messages[-count:] if count else [])],
    }


def _tree_row(conversation: RecordedConversation, past: RecordedState) -> ConversationRow:
    policy = _policy(conversation)
    note = "" if policy == "full" else spell_storage(policy)
    parent_id = _terms(conversation).parent_id
    return ConversationRow(
        conversation.id, parent_id, _name(conversation), _status(conversation, past), len(_messages(conversation)), note
    )


def _name(conversation: RecordedConversation) -> str:
    terms = _terms(conversation)
    return conversation_name(conversation.id, terms.title, terms.parent_id)


def _terms(conversation: RecordedConversation) -> RecordedTerms:
    assert conversation.agreed is not None, "conversations without terms are not shown"
    return read_terms(conversation.agreed)


def _policy(conversation: RecordedConversation) -> WireStorage | None:
    return None if conversation.agreed is None else storage_to_wire(conversation.agreed.storage)


def _status(conversation: RecordedConversation, past: RecordedState) -> str:
    if conversation.closed:
        return "closed"
    running = any(task.scope.conversation_id == conversation.id for task in past.unfinished.values())
    return "unfinished" if running or conversation.begun else "idle"


def _messages(conversation: RecordedConversation) -> list[UserMessage | AssistantMessage]:
    return [
        item for item in conversation.items if isinstance(item, UserMessage | AssistantMessage) and is_message(item)
    ]


def _role(item: UserMessage | AssistantMessage) -> str:
    return "user" if isinstance(item, UserMessage) else "assistant"


def _gap(conversation: RecordedConversation) -> str | None:
    """Which texts are not stored, and why; None if all are."""
    count, terms = sum(len(piece.missing) for piece in conversation.pieces), _terms(conversation)
    title = ["its title"] if terms.titled and terms.title is None else []
    missing = " and ".join([*title, *([format_count(count, "text")] if count else [])])
    policy = _policy(conversation)
    if policy == "none":
        return (
            f"everything that was said in {format_count(conversation.tasks, 'task')}: its policy is none"
            if conversation.tasks
            else None
        )
    if not missing:
        return None
    if policy == "headers_only":
        return f"{missing}: its policy is headers_only"
    if policy != "full":
        return f"{missing}: expired, {spell_storage(policy)}"
    return f"{missing}: of a conversation with a stricter policy, or removed since"


def spell_storage(policy: WireStorage | None) -> str:
    """A storage policy as it is written on the command line."""
    if isinstance(policy, dict):
        return f"ttl:{policy['ttl']:g}"
    return policy or "unknown"
