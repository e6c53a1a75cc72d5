"""Whether a call to an MCP server runs, is asked about or is refused: modes, hints, origins, sandboxes."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from msgspec.structs import replace

from tertulia.errors import NoApproverError
from tertulia.mcp.config.definition import Stdio
from tertulia.policy.approval_policy import NEVER, ON_REQUEST, UNTRUSTED
from tertulia.protocol.ids import ConversationId
from tertulia.tools.mcp_tool import approval_request, runs_unasked
from tests.tables import each_row
from tests.tools.serving import READING, WRITING, Bench, Now, StubServers, spec_of


def now(bench: Bench) -> Now:
    return bench.servers.current(bench.tool.spec, ConversationId("a"))


@each_row(
    ("approval", "origin", "tool", "unasked"),
    [
        ("approve", "user", WRITING, True),
        ("approve", "project", WRITING, True),
        ("prompt", "user", READING, False),
        ("prompt", "code", WRITING, False),
        ("auto", "user", READING, True),
        ("auto", "code", READING, True),
        ("auto", "user", WRITING, False),
        ("auto", "project", READING, False),
        ("auto", "provider", READING, False),
    ],
)
@pytest.mark.parametrize("policy", [ON_REQUEST, UNTRUSTED, NEVER])
async def test_the_mode_decides_and_a_hint_counts_only_for_servers_of_the_user(
    approval: str, origin: str, tool: Any, unasked: bool, policy: Any
) -> None:
    """DESIGN, Fine print, MCP: a read-only hint of anybody else never widens anything."""
    bench = Bench(tool, approval=approval, origin=origin, attended=False)
    if unasked:
        assert (await bench.run(approval_policy=policy)).success
        assert "approval_request" not in bench.types
        return
    with pytest.raises(NoApproverError, match=r'`\[mcp_servers\.fs\] approval = "approve"`'):
        await bench.run(approval_policy=policy)
    assert bench.servers.calls == []
    assert bench.told == []


@pytest.mark.parametrize("approval", ["approve", "auto"])
@each_row(
    ("sandbox", "confined", "unasked"),
    [
        ("read_only", None, False),
        ("read_only", "workspace_write", False),
        ("read_only", "read_only", True),
        ("workspace_write", None, True),
        ("danger_full_access", None, True),
    ],
)
def test_under_read_only_every_server_that_may_do_more_asks(
    approval: str, sandbox: Any, confined: Any, unasked: bool
) -> None:
    """DESIGN, Views: whatever the mode, and whatever the server says of itself."""
    bench = Bench(approval=approval, sandbox=confined)
    assert runs_unasked(now(bench), bench.call(sandbox=sandbox).rights) is unasked


async def test_under_read_only_the_refusal_says_what_would_help() -> None:
    bench = Bench(approval="approve", attended=False)
    with pytest.raises(NoApproverError) as refused:
        await bench.run(sandbox="read_only", approval_policy=NEVER)
    assert "`[mcp_servers.fs] approval` does not count" in refused.value.message
    assert '`[mcp_servers.fs] sandbox = "read-only"`' in refused.value.message
    assert refused.value.code == "no_approver"
    assert bench.servers.calls == []


def test_a_grant_is_bound_to_server_definition_tool_arguments_and_place() -> None:
    """B5: change any of it, and it is another request."""
    bench = Bench(WRITING)
    call, base = bench.call(), now(bench)
    request = approval_request(base, {"path": "x", "mode": 1}, call)
    keys = {
        request.key(None),
        approval_request(base, {"path": "y", "mode": 1}, call).key(None),
        approval_request(base, {"path": "x", "mode": True}, call).key(None),
        approval_request(base, {"path": "x"}, call).key(None),
        approval_request(base, {"path": "x", "mode": 1}, replace(call, cwd="/elsewhere")).key(None),
        approval_request(Now(base.definition, base.tool, "0" * 64), {"path": "x", "mode": 1}, call).key(None),
        approval_request(
            Now(base.definition, replace(WRITING, name="w2"), base.digest), {"path": "x", "mode": 1}, call
        ).key(None),
    }
    assert len(keys) == 7
    for change in (
        {"name": "other"},
        {"transport": Stdio(command="another-server")},
        {"transport": Stdio(command="fs-server", env={"ROOT": "/"})},
        {"sandbox": "read_only"},
    ):
        keys.add(
            approval_request(
                Now(replace(base.definition, **change), base.tool, base.digest), {"path": "x", "mode": 1}, call
            ).key(None)
        )
    assert len(keys) == 11
    same = approval_request(base, {"mode": 1, "path": "x"}, call)
    assert same.key(None) == request.key(None), "the order of arguments means nothing"


def test_variables_are_part_of_the_digest_and_never_shown() -> None:
    bench = Bench(WRITING, transport=Stdio(command="s", env=MappingProxyType({"TOKEN": "hunter2"})))
    event = approval_request(now(bench), {}, bench.call()).as_event("1", UNTRUSTED)
    assert "hunter2" not in repr(event)


def test_what_is_shown_is_escaped_and_bounded() -> None:
    """B10."""
    nasty = "\x1b[2J\u202eevil\u200b"
    tool = replace(WRITING, name=f"write{nasty}")
    servers = StubServers()
    current = Now(servers.definition, tool, spec_of(tool).digest)
    event = approval_request(current, {"path": nasty, "body": "x" * 1_000_000}, Bench().call()).as_event("1", UNTRUSTED)
    shown = "".join([event.title, event.detail, *event.matches])
    assert not any(character in shown for character in nasty if not character.isascii() or character == "\x1b")
    assert "⟨U+202E⟩" in shown
    assert len(shown) < 30_000
    assert "sha256" in shown
    assert event.scopes == ["once"], "what cannot be seen whole is not allowed for longer"


def test_the_person_reads_the_arguments_and_what_the_server_claims() -> None:
    bench = Bench(WRITING, origin="project", source="/w/.mcp.json")
    event = approval_request(now(bench), {"path": "x"}, bench.call(callers=("root",))).as_event("1", UNTRUSTED)
    assert event.kind == "mcp"
    assert event.title == "call write of the MCP server fs"
    assert '"path": "x"' in event.detail
    assert "the server says that it may destroy; it runs outside any sandbox, named in /w/.mcp.json" in event.detail
    assert event.chain == ["root"]
    assert event.scopes == ["once", "conversation", "session"]
    assert bench.tool.spec.digest in event.matches[0]
    assert event.matches[3] == "sandbox: outside any sandbox"


@each_row(
    ("hints", "expected"),
    [
        (READING.hints, "only reads"),
        (replace(READING.hints, read_only=False), "changes, and destroys nothing"),
        (WRITING.hints, "may destroy"),
    ],
)
def test_a_claim_is_shown_as_a_claim(hints: Any, expected: str) -> None:
    bench = Bench(sandbox="read_only", network=False)
    current = now(bench)
    current.tool = replace(READING, hints=hints)
    detail = approval_request(current, {}, bench.call()).detail
    assert f"the server says that it {expected}; it runs in a sandbox of its own: read_only, network off" in detail


async def test_allowed_for_the_conversation_means_the_same_call_there() -> None:
    """B3, B5."""
    bench = Bench(WRITING)
    first = bench.begin({"path": "x"})
    bench.approvals.resolve((await bench.asked()).approval_id, "allow", scope="conversation")
    assert (await first).success
    assert (await bench.run({"path": "x"})).success
    for change in ({"arguments": {"path": "y"}}, {"arguments": {"path": "x"}, "conversation": "b"}):
        asking = bench.begin(**change)
        bench.approvals.resolve((await bench.asked()).approval_id, "deny")
        with pytest.raises(Exception, match="the user said no"):
            await asking
    assert bench.servers.calls == [{"path": "x"}, {"path": "x"}]
