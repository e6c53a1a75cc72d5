"""`tertulia sessions show`: one stored session, its conversations, its last words, and what is not stored."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from tertulia.apps.columns import ago, counted, size
from tertulia.apps.global_flags import Given, global_flags
from tertulia.apps.json_lines import escaped
from tertulia.apps.stored import find_stored, which_session
from tertulia.apps.talk_tree import Leaf, name_of, write_tree
from tertulia.apps.terminal import Terminal, shortened
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
@which_session
@click.option("--messages", metavar="N", type=click.IntRange(min=0), default=_MESSAGES, help="How many of the last; 6.")
@click.option("as_json", "--json", is_flag=True, help="One JSON object.")
@global_flags
@click.pass_obj
def show(given: Given, *, which: str | None, last: bool, messages: int, as_json: bool) -> int:
    """Show a session: its conversations and its last messages.

    Reads only what is stored, and says what is not, and why. Changes nothing, also while somebody uses the session.
    """
    loaded = given.load()
    home = loaded.environment.home
    found = summary(home, find_stored(home, which, last=last))
    past = RecordedState() if found.entry.trouble is not None else read_recorded_state(home, found.entry.id)
    if as_json:
        said = {**described(found), "conversations": [_conversation(talk, past, messages) for talk in _known(past)]}
        sys.stdout.buffer.write(escaped(msgspec.json.format(msgspec.json.encode(said), indent=2)) + b"\n")
        return 0 if found.entry.trouble is None else 1
    out = Terminal(sys.stdout, loaded.environment.variables)
    _write_about(out, found, past, SessionFiles(home, found.entry.id))
    if found.entry.trouble is not None:
        return 1
    out.line()
    write_tree(out, [_leaf(talk, past) for talk in _known(past)])
    _write_messages(out, past, messages)
    _write_gaps(out, past)
    return 0


def described(found: SessionSummary) -> dict[str, Any]:
    """A session as programs read it."""
    entry, at = found.entry, Timestamps(SystemClock()).at
    return {
        "session_id": entry.id,
        "created_at": at(entry.created),
        "updated_at": at(entry.updated),
        "in_use": found.held,
        "model": entry.model,
        "storage_policy": entry.storage,
        "conversations": entry.conversations,
        "items": entry.items,
        "events": entry.events,
        "texts": entry.bodies,
        "bytes": entry.size,
        "title": found.title,
        "preview": found.preview,
        "trouble": entry.trouble,
    }


# ---- for people


def _write_about(out: Terminal, found: SessionSummary, past: RecordedState, files: SessionFiles) -> None:
    entry, now = found.entry, SystemClock().now()
    out.line((entry.id, "bold"), ("  in use by another process", "green") if found.held else "")
    at = Timestamps(SystemClock()).at
    rows = {
        "model": entry.model or "unknown",
        "begun": f"{at(entry.created)[:19].replace('T', ' ')} UTC, last used {ago(now - entry.updated)}",
        "stored": f"{counted(entry.items, 'item')}, {counted(entry.events, 'event')}, "
        f"{counted(entry.bodies, 'text')}; {size(entry.size)}; policy {spelled(entry.storage)}",
        "file": str(files.db),
    }
    if past.epoch:
        rows["resumed"] = counted(past.epoch, "time")
    if past.damaged:
        rows["damaged"] = f"{counted(past.damaged, 'record')} cannot be read; the others can"
    if entry.trouble is not None:
        rows = {"file": rows["file"], "trouble": told_shortly(entry.trouble)}
    for name, value in rows.items():
        out.line((f"  {name:8}", "dim"), (value, "red" if name in ("trouble", "damaged") else "plain"))


def _write_messages(out: Terminal, past: RecordedState, count: int) -> None:
    root = None if past.root_id is None else past.talks.get(past.root_id)
    said = [] if root is None else _messages(root)
    if not count or not said:
        return
    out.line()
    earlier = f", after {counted(len(said) - count, 'earlier one')}" if len(said) > count else ""
    out.line(("Last messages of root", "bold"), (earlier, "dim"))
    for item in said[-count:]:
        out.line((f"  {_role(item):10}", "cyan"), shortened(item.text, 400) if item.text else "(pictures)")


def _write_gaps(out: Terminal, past: RecordedState) -> None:
    gaps = [(talk, gap) for talk in _known(past) if (gap := _gap(talk)) is not None]
    if gaps:
        out.line()
        out.line(("Not stored", "bold"))
    for talk, gap in gaps:
        out.line(f"  {_name(talk):12} {gap}")


def told_shortly(trouble: str) -> str:
    """What is wrong, without the file that it is about, where that is said already."""
    file, _, rest = trouble.partition(".db")
    return f"the file{rest}" if file.startswith("/") and rest else trouble


# ---- what is known of a conversation


def _known(past: RecordedState) -> Iterator[RecordedConversation]:
    return (talk for talk in past.talks.values() if talk.agreed is not None)


def _conversation(talk: RecordedConversation, past: RecordedState, count: int) -> dict[str, Any]:
    agreement = _agreement(talk)
    said = _messages(talk)
    return {
        "id": talk.id,
        "parent_id": agreement.parent_id,
        "title": agreement.title,
        "status": _status(talk, past),
        "depth": agreement.depth,
        "message_count": len(said),
        "model": agreement.model,
        "backend": agreement.backend,
        "storage_policy": _policy(talk),
        "not_stored": _gap(talk),
        "messages": [{"id": i.id, "role": _role(i), "text": i.text} for i in (said[-count:] if count else [])],
    }


def _leaf(talk: RecordedConversation, past: RecordedState) -> Leaf:
    policy = _policy(talk)
    note = "" if policy == "full" else spelled(policy)
    parent_id = _agreement(talk).parent_id
    return Leaf(talk.id, parent_id, _name(talk), _status(talk, past), len(_messages(talk)), note)


def _name(talk: RecordedConversation) -> str:
    agreement = _agreement(talk)
    return name_of(talk.id, agreement.title, agreement.parent_id)


def _agreement(talk: RecordedConversation) -> RecordedTerms:
    assert talk.agreed is not None, "only those are shown"
    return read_terms(talk.agreed)


def _policy(talk: RecordedConversation) -> WireStorage | None:
    return None if talk.agreed is None else storage_to_wire(talk.agreed.storage)


def _status(talk: RecordedConversation, past: RecordedState) -> str:
    if talk.closed:
        return "closed"
    begun = any(task.scope.conversation_id == talk.id for task in past.unfinished.values())
    return "unfinished" if begun or talk.begun else "idle"


def _messages(talk: RecordedConversation) -> list[UserMessage | AssistantMessage]:
    return [item for item in talk.items if isinstance(item, UserMessage | AssistantMessage) and is_message(item)]


def _role(item: UserMessage | AssistantMessage) -> str:
    return "user" if isinstance(item, UserMessage) else "assistant"


def _gap(talk: RecordedConversation) -> str | None:
    """What cannot be had back, and why."""
    missing = sum(len(piece.missing) for piece in talk.pieces)
    policy = _policy(talk)
    if policy == "none":
        return f"everything that was said in {counted(talk.tasks, 'task')}: its policy is none" if talk.tasks else None
    if not missing:
        return None
    if policy == "headers_only":
        return f"{counted(missing, 'text')}: its policy is headers_only"
    if policy != "full":
        return f"{counted(missing, 'text')}: expired, {spelled(policy)}"
    return f"{counted(missing, 'text')}: of a conversation with a stricter policy, or removed since"


def spelled(policy: WireStorage | None) -> str:
    """A storage policy as it is written on the command line."""
    if isinstance(policy, dict):
        return f"ttl:{policy['ttl']:g}"
    return policy or "unknown"
