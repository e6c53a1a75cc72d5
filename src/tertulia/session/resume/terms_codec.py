"""The terms of a conversation as they are written down, and read back.

What people wrote (instructions, titles, directories) is kept apart from what only says what is allowed: the first
goes by the storage policy, the second is always kept, so that a resumed conversation has no more rights than it had.
Beside them stand the pins: digests of the definitions of MCP tools that it was shown. Those were read and allowed; a
server that defines them otherwise when it runs again has to be looked at again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from tertulia.conversation.state import ConversationState
from tertulia.conversation.terms import Terms
from tertulia.errors import InvalidParamsError, StorageError
from tertulia.mcp.view import McpView
from tertulia.policy.host_rules import HostRules
from tertulia.policy.rights import Narrowing, Rights
from tertulia.protocol.conversation_fields import PREFERENCES, TOOL_SWITCHES
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.records import MCP_PINS, NoteRecord, TermsRecord, names_a_file
from tertulia.protocol.validation_text import explain_validation
from tertulia.protocol.worktree import OwnWorktree


class RecordedTerms(msgspec.Struct, frozen=True):
    """The terms of a conversation, as far as they were recorded."""

    parent_id: ConversationId | None
    depth: int
    model: str
    backend: str
    because: str
    rights: Rights
    ceiling: Rights
    preferences: dict[str, Any]
    """By their names in the table of conversation fields; None where one was not set."""
    cwd: str | None = None
    """None where it was not stored."""
    title: str | None = None
    titled: bool = False
    """Whether it had a title, stored or not."""
    base_instructions: str | None = None
    user_instructions: str | None = None
    narrowed: tuple[Narrowing, ...] = ()
    agent: dict[str, Any] | None = None
    """Its agent, as it was described, if it is one."""
    functions: tuple[str, ...] = ()
    """The names of Python functions that only it could call. They were objects of the process and are not stored."""
    fallback_models: tuple[str, ...] = ()
    """The models that answered instead of its own."""
    in_worktree: bool = False
    """Whether it worked in a worktree, stored or not."""
    worktree: OwnWorktree | None = None
    """The worktree that it worked in; None where it is not stored either."""


def terms_record(conversation: ConversationState, narrowed: Sequence[Narrowing]) -> TermsRecord:
    """The record of a conversation's terms as they are now."""
    terms, context = conversation.terms, conversation.terms.context
    return TermsRecord(
        conversation_id=conversation.id,
        storage=conversation.storage,
        rights={"rights": _rights_without_roots(terms.rights), "ceiling": _rights_without_roots(conversation.ceiling)},
        place={
            "parent_id": conversation.parent_id,
            "depth": conversation.depth,
            "model": "" if names_a_file(terms.wire.name) else terms.wire.name,
            "backend": terms.backend,
            "because": conversation.because,
            **({"titled": True} if conversation.title is not None or conversation.lost_title else {}),
            **({"in_worktree": True} if terms.worktree is not None else {}),
            **_fallback_models(terms, in_files=False),
            **{name: getattr(terms, name) for name in PREFERENCES},
        },
        terms={
            **({"model": terms.wire.name} if names_a_file(terms.wire.name) else {}),
            **_fallback_models(terms, in_files=True),
            "cwd": terms.cwd,
            "title": conversation.title,
            "base_instructions": context.base_instructions,
            "user_instructions": context.user_instructions,
            "narrowed": msgspec.to_builtins(list(narrowed)),
            **({} if terms.agent is None else {"agent": terms.agent.meta}),
            **({} if terms.worktree is None else {"worktree": msgspec.to_builtins(terms.worktree)}),
            **({"functions": [tool.spec.name for tool in terms.functions]} if terms.functions else {}),
            "roots": [terms.rights.writable_roots, conversation.ceiling.writable_roots],
            **_hosts(terms.rights, conversation.ceiling),
            # Of the root, which may work elsewhere: what commands may write where the client named no directory.
            **({} if conversation.parent_id is not None else {"workspace": conversation.default.cwd}),
        },
    )


def _fallback_models(terms: Terms, *, in_files: bool) -> dict[str, list[str]]:
    """They stand with the texts where one of them is a file's name, and else beside the model."""
    names = list(terms.fallback_models)
    return {"fallback_models": names} if names and any(map(names_a_file, names)) is in_files else {}


def keep_recorded_rights(then: TermsRecord | None, now: TermsRecord) -> TermsRecord:
    """The present terms with the recorded rights; the storage policy stays as strict as it has become."""
    if then is None:
        return now
    storage = {name: {"storage_policy": rights["storage_policy"]} for name, rights in now.rights.items()}
    return replace(
        now,
        rights={name: {**rights, **storage.get(name, {})} for name, rights in then.rights.items()},
        terms={
            **now.terms,
            **{name: then.terms[name] for name in ("roots", "hosts", "workspace") if name in then.terms},
        },
    )


def recorded_workspace(record: TermsRecord | None) -> str | None:
    """The directory of the session whose root this is; None where it was not stored."""
    place = None if record is None else record.terms.get("workspace")
    return place if isinstance(place, str) and os.path.isabs(place) else None


def read_terms(record: TermsRecord) -> RecordedTerms:
    """Read terms back. Directories that were not stored are not writable. StorageError for terms that make no sense."""
    try:
        return _read_fields(record)
    except msgspec.ValidationError as error:
        problem = explain_validation(error, RecordedTerms)
    except InvalidParamsError as error:
        problem = error.message
    except TypeError:
        problem = "a part of them is no table"
    raise StorageError(f"the terms of conversation {record.conversation_id} cannot be read: {problem}")


def _read_fields(record: TermsRecord) -> RecordedTerms:
    terms = dict(record.terms)
    roots = terms.pop("roots", ((), ()))
    hosts = msgspec.convert(terms.pop("hosts", (None, None)), tuple[HostRules | None, HostRules | None])
    rights = {name: {**_UNKNOWN_THEN, **written} for name, written in record.rights.items()}
    preferences = {name: _preference(name, record.place.get(name)) for name in PREFERENCES}
    written = msgspec.convert({**record.place, **terms, **rights, "preferences": preferences}, RecordedTerms)
    now, most = msgspec.convert(roots, tuple[tuple[str, ...] | None, tuple[str, ...] | None])
    return replace(
        written,
        rights=_with_hosts(_with_roots(written.rights, now), hosts[0]),
        ceiling=_with_hosts(_with_roots(written.ceiling, most), hosts[1]),
    )


_UNKNOWN_THEN = dict.fromkeys(TOOL_SWITCHES, False)
"""A tool that did not exist when the record was written was not allowed either."""


def _preference(name: str, value: object) -> Any:
    return None if value is None else PREFERENCES[name].parse(value)


def _rights_without_roots(rights: Rights) -> dict[str, Any]:
    """Without directories and hosts, which are texts of people: only whether there were any is kept."""
    plain = cast("dict[str, Any]", msgspec.to_builtins(rights))
    if rights.writable_roots is not None:
        plain["writable_roots"] = []
    if isinstance(rights.network, HostRules):
        plain["network"] = msgspec.to_builtins(_NO_HOSTS)
    return plain


_NO_HOSTS = HostRules(())
"""For hosts that were not stored: each is asked about."""


def _hosts(rights: Rights, ceiling: Rights) -> dict[str, Any]:
    lists = [side.network if isinstance(side.network, HostRules) else None for side in (rights, ceiling)]
    return {"hosts": msgspec.to_builtins(lists)} if any(lists) else {}


def _with_hosts(rights: Rights, hosts: HostRules | None) -> Rights:
    return rights if isinstance(rights.network, bool) else replace(rights, network=hosts or _NO_HOSTS)


def _with_roots(rights: Rights, roots: tuple[str, ...] | None) -> Rights:
    return rights if rights.writable_roots is None else replace(rights, writable_roots=roots or ())


def pins_record(conversation: ConversationState) -> NoteRecord:
    """The record of what is pinned now."""
    return NoteRecord(conversation.id, MCP_PINS, dict(conversation.terms.context.mcp_view.pins))


class RecordedPins:
    """What conversations had pinned. Those that had the same share it, and what is made of it later."""

    def __init__(self) -> None:
        self._views: dict[frozenset[tuple[str, str]], McpView] = {}

    def view(self, noted: NoteRecord | None) -> McpView:
        """A view that has these pins and no tools yet. What is no digest pins its name all the same."""
        value = None if noted is None else noted.value
        pins = {name: str(digest) for name, digest in cast("Mapping[str, Any]", value or {}).items()}
        return self._views.setdefault(frozenset(pins.items()), McpView(pins=pins))
