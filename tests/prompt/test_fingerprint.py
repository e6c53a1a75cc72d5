"""What a request was made of, by digest."""

from __future__ import annotations

from tertulia.history.store import HistoryLimits, HistoryStore
from tertulia.prompt.fingerprint import fingerprint_request
from tertulia.protocol.ids import ConversationId, ItemId, TaskId
from tertulia.protocol.items import UserMessage, text_parts
from tests.tables import each_row

ASKER = (ConversationId("c"), TaskId("t"))


def history(*texts: str) -> HistoryStore:
    store = HistoryStore(HistoryLimits())
    for number, text in enumerate(texts):
        store.append([UserMessage(ItemId(f"i{number}"), text_parts(text))])
    return store


def test_equal_parts_have_equal_fingerprints() -> None:
    """S002-15: a prompt that is rebuilt from the same parts can be proved to be the same."""
    one, other = history("a", "b"), history("a", "b")
    first = fingerprint_request(ASKER, "be brief", b"[]", one.snapshot())
    assert first == fingerprint_request(ASKER, "be brief", b"[]", other.snapshot())
    assert (first.items, first.tools_json, first.override) == (2, b"[]", None)


@each_row(
    ("instructions", "tools", "texts", "schema"),
    [
        ("be long", b"[]", ("a",), None),
        ("be brief", b"[1]", ("a",), None),
        ("be brief", b"[]", ("b",), None),
        ("be brief", b"[]", ("a", "a"), None),
        ("be brief", b"[]", ("a",), "{}"),
    ],
)
def test_every_part_counts(instructions: str, tools: bytes, texts: tuple[str, ...], schema: str | None) -> None:
    usual = fingerprint_request(ASKER, "be brief", b"[]", history("a").snapshot())
    other = fingerprint_request(ASKER, instructions, tools, history(*texts).snapshot(), output_schema=schema)
    assert usual.prompt != other.prompt
