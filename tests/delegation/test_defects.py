"""The twelve defects of the implementation that the documents describe, each as a test that it would fail."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

import tertulia
from tertulia.mcp.view import McpView
from tertulia.protocol.items import ToolOutput, UserMessage
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.scheduler.plan import TaskPlan
from tertulia.session import submission
from tertulia.testing import call, say
from tertulia.tools.registry import ToolRegistry
from tertulia.tools.tool import CallContext, Outcome, Result
from tests.delegation.delegation_stage import Play, create, destroy, play, send


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


async def test_1_nesting_is_first_in_first_out() -> None:
    """X-03: the outer continuation must not run before the inner target has answered."""
    async with play(say("", create("c1")), say("", create("c2")), say("C"), say("B"), say("A")) as on:
        await on.root.message("go")
        order = [line[0] for line in on.score() if "task_started" in line]
        assert order == ["A", "B", "C", "B", "A"]
        assert on.heard()[0]["last_assistant_message"] == "B"


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
        assert [told.get("code") for told in on.heard(on.session.conversations()[1])] == [None, "not_found"]


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


async def test_5_a_depth_refusal_leaves_something_behind() -> None:
    """S004-32: the limit is checked before anything exists: no conversation, no event, and the call is answered."""
    async with play(limits={"max_interrupt_chain_depth": 1}) as on:
        b = await on.session.open()
        before = on.ids()
        on.write(say("", send(b)), say("", create("c2")), say("B"), say("A"))
        await on.root.message("go")
        assert on.ids() == before
        assert [line for line in on.score() if "opened" in line] == ["B conversation_opened"]
        assert on.heard(b)[0]["code"] == "depth_exceeded"
        on.check_idle()


async def test_6_a_counter_is_reset_by_a_continuation() -> None:
    """G5, X-16: what one message may cause is counted over its whole chain; the next message has its turn."""
    limits = {"max_task_interrupts": 3, "max_chain_conversations": 3}
    async with play(limits=limits) as on:
        on.write(*(reply for n in range(1, 4) for reply in (say("", create(f"c{n}")), say("child"))))
        on.write(say("", create("c4")), say("enough"))
        waiting = on.begin(on.root.message("go"))
        next_one = on.begin(on.root.message("and I?"))
        assert (await waiting).text == "enough"
        assert [told["ok"] for told in on.heard()] == [True, True, True, False]
        assert on.heard()[3]["code"] == "limit"
        assert (await next_one).text == "nothing planned"


async def test_7_a_destroyed_target_stalls_its_caller() -> None:
    """S004-18: the call of a target that is gone before it could answer is answered, and the slot is free again."""
    async with play() as on:
        b, c = await on.session.open(), await on.session.open()
        gate = asyncio.Event()
        on.write(say("", send(b, "c1"), send(c, "c2")), say("B", gate=gate), say("A"))
        running = on.begin(on.root.message("go"))
        await on.asked(2)
        await c.close()
        gate.set()
        assert (await running).text == "A"
        assert [told.get("code") for told in on.heard()] == [None, "closed"]
        on.check_idle()


async def test_8_a_missing_id_is_ok() -> None:
    """S004-28, X-71: destroying what does not exist, or no longer does, is a failure."""
    async with play() as on:
        b = await on.session.open()
        on.write(
            say("", destroy("7d0d1d4b-0000-4000-8000-000000000000", "d1"), destroy(b, "d2"), destroy(b, "d3")), "ok"
        )
        await on.root.message("go")
        assert on.heard() == [
            {"ok": False, "code": "not_found", "reason": "conversation not found"},
            {"ok": True},
            {"ok": False, "code": "not_found", "reason": "conversation not found"},
        ]


async def test_9_sibling_calls_are_lost() -> None:
    """X-12: every call of an answer has its one output, before, between and after those that interrupt."""

    @tertulia.tool
    async def note(text: str) -> str:
        """Repeat."""
        return f'{{"ok": true, "text": "{text}"}}'

    def noted(text: str) -> Any:
        return call("note", {"text": text}, text)

    async with play(tools=[note]) as on:
        on.write(say("", noted("n1"), create("c1"), noted("n2"), create("c2"), noted("n3")), "B", "C", "A")
        assert (await on.root.message("go")).tool_calls == 5
        told = {output.call_id: output.success for output in on.outputs(on.root)}
        assert told == dict.fromkeys(["n1", "c1", "n2", "c2", "n3"], True)
        begun = [line.split()[2] for line in on.score() if "tool_call_begin" in line]
        assert begun == ["n1", "c1", "n2", "c2", "n3"]


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


async def test_11_a_continuation_begins_with_an_empty_message() -> None:
    """S004-19: the continuation's model reads the output and nothing else that is new."""
    async with play(say("", create()), "B", "A") as on:
        await on.root.message("go")
        before, after = on.model.requests[0].items, on.model.requests[2].items
        assert [type(item).__name__ for item in after[len(before) :]] == ["ToolCall", "ToolOutput"]
        assert all(item.text for item in after if isinstance(item, UserMessage))
        started = [e.data for e in on.events.drain() if e.type == "task_started"]
        assert [data.input_preview for data in started] == ["go", "do it", None]


async def test_12_instructions_for_one_task_are_ignored() -> None:
    """S004-16, S004-24: an override holds for its task, its continuation included, and for nothing else."""
    async with play(say("", create()), "B", "A", "later") as on:
        conversation = on.parts.conversations.root
        item = submission.to_user_message("go", None, cwd=conversation.terms.cwd)
        plan = TaskPlan(conversation.id, "user", (item,), base_instructions_override="Only today.", sub_id="sub/1")
        await submission.submit_plan(on.parts, plan).reply()
        await on.root.message("and now?")
        told = [asked.instructions.startswith("Only today.") for asked in on.model.requests]
        assert told == [True, False, True, False]
