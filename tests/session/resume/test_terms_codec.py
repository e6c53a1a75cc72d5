"""The terms of a conversation, written down and read back."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from tertulia.errors import StorageError
from tertulia.policy.rights import TOP, Narrowing
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.records import TermsRecord
from tertulia.protocol.storage import HeadersOnly, Ttl
from tertulia.session.resume.terms_codec import keep_recorded_rights, read_terms, recorded_workspace, terms_record
from tests.conversation.conversations import make_conversation, terms
from tests.tables import each_row

RIGHTS = replace(
    TOP,
    storage_policy=Ttl(60.0),
    sandbox="workspace_write",
    writable_roots=("/canary/a",),
    mcp_tool_allowlist=frozenset({"fs__read"}),
)


def made() -> TermsRecord:
    one = make_conversation(
        terms(RIGHTS, base="canary base", user="canary user", cwd="/canary/cwd", shell_mode="streamable")
    )
    one.title, one.parent_id, one.depth, one.because = "canary title", ConversationId("p"), 2, "ancestor:p"
    one.ceiling = replace(RIGHTS, writable_roots=("/canary/a", "/canary/b"))
    return terms_record(one, [Narrowing("sandbox", "danger-full-access", "workspace-write", "session")])


def test_what_is_written_is_what_is_read() -> None:
    """S002-15"""
    record = msgspec.json.decode(msgspec.json.encode(made()), type=TermsRecord)
    back = read_terms(record)
    assert (back.rights, back.ceiling.writable_roots) == (RIGHTS, ("/canary/a", "/canary/b"))
    texts = (back.base_instructions, back.user_instructions, back.title)
    assert texts == ("canary base", "canary user", "canary title")
    assert (back.cwd, back.preferences["shell_mode"], back.model, back.backend) == (
        "/canary/cwd",
        "streamable",
        "acme/one",
        "native",
    )
    assert (back.parent_id, back.depth, back.because) == ("p", 2, "ancestor:p")
    assert [cut.field for cut in back.narrowed] == ["sandbox"]


def test_what_says_what_is_allowed_holds_no_text_of_anybody() -> None:
    """E1, S002-16: instructions, titles and directories stand among the terms only."""
    record = made()
    assert b"canary" not in msgspec.json.encode([record.rights, record.place])


def test_directories_that_were_not_stored_may_not_be_written() -> None:
    """B7: forgetting never widens."""
    back = read_terms(replace(made(), terms={}))
    assert (back.rights.writable_roots, back.ceiling.writable_roots) == ((), ())
    assert (back.cwd, back.title, back.base_instructions, back.narrowed) == (None, None, None, ())


def test_a_tool_that_the_record_does_not_know_is_off() -> None:
    """B7: a switch that came with a later version gives a conversation of then nothing that it had not."""
    record = made()
    rights = {name: {k: v for k, v in old.items() if k != "include_plan_tool"} for name, old in record.rights.items()}
    back = read_terms(replace(record, rights=rights))
    assert back.rights == replace(RIGHTS, include_plan_tool=False)
    assert back.ceiling.allows_tool("update_plan") is False


def test_no_directories_are_no_directories_again() -> None:
    back = read_terms(terms_record(make_conversation(terms()), []))
    assert back.rights == TOP


@each_row(
    "broken",
    [
        {"rights": {}},
        {"place": {"depth": "x"}},
        {"terms": {"roots": 5}},
        {"terms": {"title": []}},
        {"place": {"shell_mode": "loud"}},
    ],
)
def test_terms_that_make_no_sense_are_refused(broken: dict[str, object]) -> None:
    """E8: a crafted record gives nobody anything."""
    with pytest.raises(StorageError, match="cannot be read"):
        read_terms(replace(made(), **broken))


def test_a_preference_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(StorageError, match="cannot be read: shell_mode must be one of"):
        read_terms(replace(made(), place={**made().place, "shell_mode": "loud"}))


def test_the_workspace_is_told_by_the_root_and_is_not_where_it_works() -> None:
    """A8: a conversation that is sent elsewhere may not write there for that."""
    root = make_conversation(terms(cwd="/work"))
    root.terms = terms(cwd="/etc")
    assert recorded_workspace(terms_record(root, [])) == "/work"
    assert recorded_workspace(made()) is None
    assert recorded_workspace(None) is None
    assert recorded_workspace(replace(made(), terms={"workspace": "../x"})) is None
    assert recorded_workspace(replace(made(), terms={"workspace": 3})) is None


def test_what_one_life_may_not_do_is_not_what_was_agreed() -> None:
    """S000-16: rights and directories are those of then; only what is stored stays as strict as it has become."""
    then = made()
    less = replace(RIGHTS, sandbox="read_only", storage_policy=HeadersOnly(), writable_roots=())
    now = terms_record(make_conversation(terms(less, cwd="/canary/cwd")), [])
    lasting = keep_recorded_rights(then, now)
    assert read_terms(lasting).rights == replace(RIGHTS, storage_policy=HeadersOnly())
    assert (lasting.storage, lasting.place) == (now.storage, now.place)
    assert keep_recorded_rights(None, now) is now
