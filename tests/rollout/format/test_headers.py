"""Which fields of an event may stand in its header."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args, get_origin

import msgspec

from tertulia.protocol.events import EVENT_TYPES, EventData
from tertulia.protocol.items import Usage
from tertulia.protocol.mapping_struct import BaseEventData
from tertulia.rollout.format.headers import SKELETON, is_plain, layout_of
from tests.rollout.recording import DURABLE
from tests.tables import each_row

# A text in a header would be stored under headers_only. Each name here was looked at: none of them is anybody's text.
HARMLESS_STRINGS = {
    "root_conversation_id", "parent_id", "conversation_id", "approval_id", "checkpoint_id", "elicitation_id", "chain",
    "caller_id", "field", "before", "after",
    "protocol_version", "version", "model", "backend", "code", "cache_key", "name", "server", "tool", "timestamp",
    "fields", "policy", "added", "removed", "withheld", "hook", "narrowed",
}  # fmt: skip


def _is_text(kind: Any) -> bool:
    if get_origin(kind) is Literal or kind in (int, float, bool, Usage, type(None)):
        return False
    return not get_args(kind) or any(map(_is_text, get_args(kind)))


@each_row("kind", DURABLE.values(), ids=DURABLE)
def test_no_text_of_anybody_is_a_header(kind: type[EventData]) -> None:
    """S002-16, HARDENING E1"""
    layout = layout_of(kind)
    types = {field.name: field.type for field in msgspec.structs.fields(kind)}
    headers = {*layout.header, *layout.offered, *layout.repeated}

    assert {name for name in headers if _is_text(types[name])} <= HARMLESS_STRINGS
    assert headers | set(layout.body) == set(types), "every field has its place"
    assert not headers & set(layout.body)


def test_an_event_type_that_is_not_listed_has_no_header() -> None:
    """A new type leaks nothing before somebody has thought about it."""

    class Unheard(BaseEventData, frozen=True):
        type: ClassVar[str] = "error"
        code: str
        message: str

    layout = layout_of(Unheard)

    assert (layout.header, layout.body) == ((), ("code", "message"))


@each_row("value", [None, True, 3, 2.5, "", "claude-4/x", ["a_b", "c.d"], ("e@f",), {"a": ["b"]}, "a" * 128])
def test_names_and_numbers_are_plain(value: object) -> None:
    assert is_plain(value)


@each_row(
    "value",
    [
        "two words",
        "a" * 129,
        "ü",
        "a\n",
        ["two words"],
        {"a": "two words"},
        {"two words": 1},
        b"x",
        "/ada",
        "../x",
        "<x>",
        '"',
    ],
)
def test_texts_and_objects_are_not_plain(value: object) -> None:
    """HARDENING E1: whoever publishes an event cannot put a text where a name belongs."""
    assert not is_plain(value)


def test_the_skeleton_is_starts_ends_and_errors() -> None:
    """S002-17, R3: and the digest of a message id, so that no message runs twice."""
    assert set(SKELETON) - set(EVENT_TYPES) == {"session", "conversation", "task", "agreed", "submitted"}
    assert set(SKELETON) & set(EVENT_TYPES) == {
        "session_configured", "conversation_opened", "conversation_closed", "conversation_close_forced",
        "task_started", "task_complete", "turn_aborted", "error",
    }  # fmt: skip


def test_what_is_not_there_has_an_empty_value_of_its_type() -> None:
    layout_of.cache_clear()
    for kind in DURABLE.values():
        layout = layout_of(kind)
        for field in msgspec.structs.fields(kind):
            if field.name in layout.body:
                assert msgspec.convert(layout.blanks[field.name], field.type) == layout.blanks[field.name]
