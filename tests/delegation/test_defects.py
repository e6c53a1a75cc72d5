"""Defects of the implementation that the documents describe; the others of the twelve are in tests/contract."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

import tertulia
from tertulia.mcp.view import McpView
from tertulia.protocol.items import ToolOutput, UserMessage
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.testing import call, say
from tertulia.tools.registry import ToolRegistry
from tertulia.tools.tool import CallContext, Outcome, Result
from tests.delegation.delegation_stage import Play, create, play, send


class Served:
    """A tool of an MCP server, without the server."""

    parallel_safe = False
    read_only = False

    def __init__(self, name: str) -> None:
        self.spec = ToolSpec.define(name, "A tool of a server.", source="mcp", server=name.partition("__")[0])
        self.runs = 0

    def check(self, arguments: Any, call: CallContext) -> None:
        pass

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        self.runs += 1
        return Result('{"ok": true}')


class WithServer:
    """The registry of a session that has an MCP server as well: it finds the server's tools and does not offer them."""

    def __init__(self, registry: ToolRegistry, served: dict[str, Served]) -> None:
        self._registry = registry
        self._served = served

    def __getattr__(self, name: str) -> Any:
        return getattr(self._registry, name)

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def get(self, name: str) -> Any:
        return self._served.get(name) or self._registry.get(name)


def serve(on: Play, *names: str) -> dict[str, Served]:
    """The root sees these tools of a server."""
    served = {name: Served(name) for name in names}
    on.parts.toolbox.registry = WithServer(on.parts.toolbox.registry, served)
    conversation = on.parts.conversations.root
    view = McpView(tuple(tool.spec for tool in served.values()))
    conversation.terms = replace(conversation.terms, context=replace(conversation.terms.context, mcp_view=view))
    return served


async def test_2_an_allowlist_is_only_advice() -> None:
    """S004-03, X-05: what is not in the child's view is neither offered to it nor run when it calls it all the same."""
    async with play() as on:
        served = serve(on, "fs__read", "fs__write")
        on.write(
            say("", create(mcp_allowlist=["fs__read"])),
            say("", call("fs__read", {}, "r1"), call("fs__write", {}, "w1")),
            say("B"),
            say("A"),
        )
        await on.root.message("go")
        asked_by_child = on.model.requests[1]
        assert "fs__read" in [tool.name for tool in asked_by_child.request.tools]
        assert "fs__write" not in [tool.name for tool in asked_by_child.request.tools]
        assert (served["fs__read"].runs, served["fs__write"].runs) == (1, 0)
        assert [answer.get("code") for answer in on.heard(on.session.conversations()[1])] == [None, "not_found"]


async def test_3_delegation_widens_rights() -> None:
    """S000-19, X-05: a child of a narrow conversation is no wider than that, whatever it asks for."""
    seen: list[Any] = []

    @tertulia.tool
    async def look(call: tertulia.CallContext) -> str:
        """Look at the rights."""
        seen.append(call.rights)
        return '{"ok": true}'

    async with play(tools=[look]) as on:
        narrow = await on.session.open(sandbox="read-only", include_plan_tool=False, include_apply_patch_tool=False)
        requested = {"include_plan_tool": True, "include_apply_patch_tool": True}
        on.write(say("", create(internal_tools=requested)), say("", call("look", {}, "l1")), say("B"), say("A"))
        await narrow.message("go")
        child = on.session.conversations()[-1]
        context = await child.context()
        assert context.policy["sandbox"] == "read-only"
        assert "update_plan" not in [tool.name for tool in child.tools()]
        assert {cut.field for cut in context.narrowed} == set(requested)
        assert {cut.because for cut in context.narrowed} == {f"ancestor:{narrow.id}"}
        assert (seen[0].sandbox, seen[0].include_plan_tool) == ("read_only", False)


async def test_4_a_stale_answer_passes_for_success() -> None:
    """X-14: the answer is the one of this very task; an older one of the same conversation is not taken instead."""
    async with play() as on:
        b = await on.session.open()
        on.write(say("", send(b, "c1")), say("old answer"), say("one"))
        await on.root.message("one")
        on.write(say("", send(b, "c2")), say(""), say("two"))
        await on.root.message("two")
        fresh, stale = on.heard()
        assert fresh["last_assistant_message"] == "old answer"
        assert (stale["ok"], stale["last_assistant_message"]) == (False, None)


async def test_10_an_interrupt_clears_what_the_caller_was_granted_and_told() -> None:
    """X-13: the caller goes on under the policy it had; input that came meanwhile is read after the output."""
    seen: list[Any] = []

    @tertulia.tool
    async def look(call: tertulia.CallContext) -> str:
        """Look at the rights."""
        seen.append(call.rights.approval_policy)
        return '{"ok": true}'

    async with play(tools=[look]) as on:
        a = await on.session.open(approval_policy="untrusted")
        gate = asyncio.Event()
        on.write(
            say("", call("look", {}, "l1"), create("c1")), say("B", gate=gate), say("", call("look", {}, "l2")), "A"
        )
        running = on.begin(a.message("go"))
        await on.asked(2)
        await a.steer("and be quick")
        gate.set()
        await running
        assert seen[0] == seen[1] == on.parts.conversations.find(a.id).terms.rights.approval_policy
        items = on.model.requests[2].items
        assert isinstance(items[-2], ToolOutput)
        assert isinstance(items[-1], UserMessage)
        assert items[-1].text == "and be quick"
