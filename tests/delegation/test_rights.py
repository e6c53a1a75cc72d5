"""Rights only ever narrow on the way down, and the strictest of a whole chain holds while it runs."""

from __future__ import annotations

from typing import Any

import pytest

import tertulia
from tertulia.policy.rights import leq
from tertulia.testing import call, say
from tests.delegation.delegation_stage import create, play, send
from tests.delegation.test_defects import serve


@pytest.fixture
def seen() -> list[Any]:
    return []


@pytest.fixture
def look(seen: list[Any]) -> Any:
    @tertulia.tool
    async def look(call: tertulia.CallContext) -> str:
        """Look at the rights."""
        seen.append(call.rights)
        return '{"ok": true}'

    return look


async def test_a_conversation_with_wider_rights_is_no_deputy(look: Any, seen: list[Any]) -> None:
    """B11: whoever is asked acts under the strictest of the chain, through two steps, and is free again afterwards."""
    async with play(tools=[look]) as on:
        a = await on.session.open(sandbox="read-only", include_plan_tool=False)
        b = await on.session.open(approval_policy="untrusted")
        c = await on.session.open()
        looking = say("", call("look", {}, "l1"))
        on.write(say("", send(b)), say("", send(c, "c2")), looking, "C", looking, "B", looking, "A")
        await a.message("go")
        on.write(looking, "free")
        await c.message("alone")
        in_c, in_b, in_a, alone = seen
        assert (in_c.sandbox, in_c.approval_policy.auto_run, in_c.include_plan_tool) == ("read_only", "trusted", False)
        assert (in_b.sandbox, in_b.approval_policy.auto_run) == ("read_only", "trusted")
        assert (in_a.sandbox, in_a.approval_policy.auto_run) == ("read_only", "sandboxed")
        assert (alone.sandbox, alone.include_plan_tool) == ("workspace_write", True)
        assert leq(in_c, in_b)
        assert leq(in_b, in_a)
        offered = [tool.name for tool in on.model.requests[2].request.tools]
        assert "update_plan" not in offered


async def test_a_caller_that_is_narrowed_while_it_waits_binds_those_it_waits_for(look: Any, seen: list[Any]) -> None:
    """DESIGN, Fine print: while a chain runs its callers' current values bind too."""
    async with play(tools=[look]) as on:
        looking = say("", call("look", {}, "l1"))

        async def narrowing(request: Any) -> Any:
            await on.root.set_context(sandbox="read-only")
            return looking

        on.write(say("", create()), looking, narrowing, "B", "A")
        await on.root.message("go")
        assert [rights.sandbox for rights in seen] == ["workspace_write", "read_only"]


async def test_an_allowlist_is_met_with_the_callers_view() -> None:
    """X-05: mcp_allowlist ∩ the caller's view; what was asked for and not given is told, and why."""
    async with play() as on:
        serve(on, "fs__read", "fs__write", "web__get")
        on.write(say("", create("c1", mcp_allowlist=["fs__*"])))
        on.write(say("", create("c2", mcp_allowlist=["fs__read", "web__get"])), "C", "B", "A")
        await on.root.message("go")
        _, b, c = on.session.conversations()
        assert [tool.name for tool in b.tools() if tool.source == "mcp"] == ["fs__read", "fs__write"]
        assert [tool.name for tool in c.tools() if tool.source == "mcp"] == ["fs__read"]
        (cut,) = (await c.context()).narrowed
        assert (cut.field, cut.asked, cut.given) == ("mcp_tool_allowlist", ["fs__read", "web__get"], ["fs__read"])
        assert cut.because == f"ancestor:{b.id}"
        assert "C background_event" in on.score()


async def test_without_an_allowlist_the_view_is_inherited_and_an_empty_one_sees_nothing() -> None:
    """S004-03"""
    async with play() as on:
        serve(on, "fs__read", "fs__write")
        on.write(say("", create("c1", mcp_allowlist=["fs__read"])), say("", create("c2")), "C", "B", "A")
        on.write(say("", create("c3", mcp_allowlist=[])), "D", "A")
        await on.root.message("go")
        await on.root.message("again")
        views = [[t.name for t in c.tools() if t.source == "mcp"] for c in on.session.conversations()[1:]]
        assert views == [["fs__read"], ["fs__read"], []]


async def test_what_a_strict_caller_says_is_stored_no_more_freely_elsewhere() -> None:
    """DESIGN, Storage: each record carries the strictest policy of its sources, in both directions."""
    quiet, loud = tertulia.HeadersOnly(), tertulia.Full()
    async with play(storage_policy=loud) as on:
        a, b = await on.session.open(storage_policy=quiet), await on.session.open()
        on.write(say("", send(b, text="a secret")), "B", "A")
        await a.message("go")
        heard = [
            i for i in on.parts.conversations.find(b.id).history.snapshot() if getattr(i, "text", "") == "a secret"
        ]
        assert [item.storage for item in heard] == [quiet]
        on.write(say("", send(a, "c2", text="well?")), "another secret", "B")
        await b.message("go")
        assert on.outputs(b)[-1].storage == quiet
