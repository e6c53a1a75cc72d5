"""One request, put together."""

from __future__ import annotations

import msgspec

from tertulia.history.store import HistoryLimits, HistoryStore
from tertulia.models.scripted.scripted_model import ScriptedModel
from tertulia.models.wire import ModelRequest
from tertulia.prompt.request import RequestInputs, build_request, builtin_text, cache_key, fingerprint_request
from tertulia.prompt.tool_list import NO_TOOLS, OfferedTools, assemble_tools
from tertulia.protocol.ids import ConversationId, ItemId, TaskId, new_item_id
from tertulia.protocol.items import UserMessage, text_parts
from tertulia.protocol.storage import Full, HeadersOnly, NoStorage, Ttl
from tests.history.items import rounds, store_of, user
from tests.prompt.specs import mcp, spec
from tests.tables import each_row

WIRE = ScriptedModel(name="acme/one", family="acme")
TOOLS = assemble_tools([spec("shell"), mcp("fs", "read", path="string")])
PATCHING = assemble_tools([spec("shell"), spec("apply_patch")])


def asking(override: str | None = "be brief", tools: OfferedTools = TOOLS, **fields) -> RequestInputs:
    return RequestInputs(
        ConversationId("c"), fields.pop("wire", WIRE), override, tools, fields.pop("storage", Full()), **fields
    )


def test_a_request_has_all_that_a_wire_needs() -> None:
    """S000-09, S000-14, S000-45"""
    store, extra = store_of(*rounds(2)), [user("and now?")]
    request = build_request(asking(output_schema='{"type":"object"}'), store, extra)
    assert request.conversation_id == "c"
    assert request.model == "acme/one"
    assert request.instructions == "be brief"
    assert list(request.items) == [*store.snapshot(), *extra]
    assert b"[" + b",".join(request.chunks) + b"]" == msgspec.json.encode(list(request.items))
    assert request.tools is TOOLS.specs
    assert request.tools_json is TOOLS.encoded(WIRE.dialect)
    assert request.cache_key == cache_key("be brief", TOOLS.digest, "acme")
    assert request.output_schema == '{"type":"object"}'


@each_row(("policy", "stored"), [(Full(), True), (Ttl(60), True), (HeadersOnly(), False), (NoStorage(), False)])
def test_the_provider_may_keep_the_exchange_only_where_we_may(policy, stored) -> None:
    """X-33, S002-20: Full and Ttl may store, HeadersOnly and None never."""
    assert build_request(asking(storage=policy), store_of()).store is stored


@each_row(("mark", "stored"), [(HeadersOnly(), False), (NoStorage(), False), (Ttl(60), True)])
def test_the_provider_keeps_nothing_that_came_under_a_stricter_policy(mark, stored) -> None:
    """X-33, S002-19: the answer of a headers_only conversation in a full one, or a policy that was loosened since."""
    question = UserMessage(new_item_id(), text_parts("secret"), storage=mark)
    store = store_of([question])
    loosened = store_of()
    loosened.kept_by = mark
    for history in (store, store.fork(), loosened, loosened.fork()):
        assert build_request(asking(storage=Full()), history).store is stored


@each_row(
    ("override", "tools", "expected"),
    [
        (None, NO_TOOLS, builtin_text("prompt") + builtin_text("apply_patch")),
        (None, PATCHING, builtin_text("prompt") + builtin_text("code") + builtin_text("patch")),
        ("mine", NO_TOOLS, "mine"),
        ("", NO_TOOLS, ""),
    ],
)
def test_the_tools_that_are_offered_decide_about_the_patch_text(override, tools, expected) -> None:
    """S000-11, S000-12, S000-40, X-21"""
    assert build_request(asking(override, tools), store_of()).instructions == expected


def test_a_compact_request_has_its_own_instructions_and_changes_nothing() -> None:
    """S000-10, S000-39: the override of one request, the conversation's own before and after."""
    store = store_of(*rounds(2))
    own = asking("You review code.")
    before = (list(store.snapshot()), store.totals.digest)
    normal = build_request(own, store)
    compact = build_request(msgspec.structs.replace(own, override=builtin_text("compact"), tools=NO_TOOLS), store)
    after = build_request(own, store)
    assert normal.instructions == after.instructions == own.override == "You review code."
    assert compact.instructions == builtin_text("compact")
    assert compact.cache_key != normal.cache_key == after.cache_key
    assert (list(store.snapshot()), store.totals.digest) == before


def test_base_instructions_are_never_among_the_items() -> None:
    """S000-13"""
    request = build_request(asking("the secret handshake"), store_of(*rounds(2)))
    assert b"handshake" not in b"".join(request.chunks)


def test_two_conversations_do_not_influence_each_others_requests() -> None:
    """S000-37"""
    one, other = store_of([user("for one")]), store_of([user("for the other")])
    first = build_request(asking("first"), one)
    second = build_request(asking("second", NO_TOOLS), other)
    assert (first.instructions, second.instructions) == ("first", "second")
    assert first.cache_key != second.cache_key
    assert b"other" not in b"".join(first.chunks)
    assert b"for one" not in b"".join(second.chunks)


def test_a_request_does_not_change_when_the_history_goes_on() -> None:
    """S002-27"""
    store = store_of(*rounds(2))
    request = build_request(asking(), store)
    items, chunks = list(request.items), request.chunks
    store.append([user("later")])
    assert (list(request.items), request.chunks) == (items, chunks)


def test_the_cache_key_does_not_depend_on_the_history() -> None:
    """X-68: instructions, tools and family; nothing else."""

    def key(**fields: object) -> str:
        request: ModelRequest = build_request(asking(**fields), store_of(*rounds(1)))
        return request.cache_key

    assert build_request(asking(), store_of()).cache_key == key() == key(storage=NoStorage())
    assert key() == key(wire=ScriptedModel(name="acme/two", family="acme"))
    assert key() != key(wire=ScriptedModel(name="acme/one", family="other"))


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
