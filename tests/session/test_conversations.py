"""The conversations of a session: opened, narrowed, changed, forgotten, without waiting for anything."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
import pytest

import tertulia
from tertulia.errors import InvalidParamsError, LimitError, NotFoundError, ToolConflictError
from tertulia.protocol.inputs import NewConversation, SetContext
from tertulia.protocol.records import ForkRecord
from tertulia.protocol.tool_spec import CONV_TOOLS
from tertulia.testing import ScriptedModel, say
from tests.prompt.specs import mcp
from tests.session.staging import BUILT_IN, Disk, Stage, stage
from tests.tables import each_row


async def test_an_opened_conversation_has_all_that_is_its_own() -> None:
    """S002-02, S002-03, S002-46: history, view, model, storage policy; nothing of another's."""
    other = ScriptedModel(["mine"], name="scripted/mine")
    async with stage() as on:
        made = await on.session.open(model=other, storage_policy="none", title="made")
        conversation, root = on.parts.conversations.find(made.id), on.parts.conversations.root
        assert conversation.terms.wire is other
        assert conversation.terms.wire is not root.terms.wire
        assert conversation.history is not root.history
        assert conversation.terms.rights.storage_policy == tertulia.NoStorage()
        assert root.terms.rights.storage_policy == tertulia.Full()
        opened = on.events.drain()[-1]
        assert (opened.type, opened.conversation_id) == ("conversation_opened", made.id)
        assert (opened.data.parent_id, opened.data.title, opened.data.model) == (
            on.root.id,
            "made",
            "scripted/mine",
        )


async def test_what_exceeds_the_session_is_cut_to_it_and_said_everywhere(caplog: pytest.LogCaptureFixture) -> None:
    """S000-16, S000-17, S000-36, S000-47: the session's value, an event, a log line, and `narrowed`."""
    async with stage(sandbox="read-only", storage_policy="headers_only") as on:
        with caplog.at_level(logging.INFO, "tertulia"):
            made = await on.session.open(sandbox="danger-full-access", storage_policy="none")
        context = await made.context()
        assert (context.policy["sandbox"], context.storage_policy) == ("read-only", "none")
        (cut,) = context.narrowed
        assert (cut.field, cut.asked, cut.given, cut.because) == (
            "sandbox",
            "danger-full-access",
            "read-only",
            "session",
        )
        (event,) = [e for e in on.events.drain() if e.type == "background_event"]
        assert event.conversation_id == made.id
        assert event.data.narrowed == [msgspec.to_builtins(cut)]
        assert "danger-full-access" in event.data.message
        assert any("danger-full-access" in record.getMessage() for record in caplog.records)
        caplog.clear()


async def test_a_conversation_can_only_narrow_itself() -> None:
    """S000-16: after set_context too, and a reset goes back to the session's."""
    async with stage(sandbox="workspace-write") as on:
        made = await on.session.open(sandbox="read-only")
        answer = await made.set_context(sandbox="danger-full-access")
        assert [(c.field, c.given) for c in answer.narrowed] == [("sandbox", "workspace-write")]
        assert answer.context.policy["sandbox"] == "workspace-write"
        answer = await made.set_context(sandbox=None)
        assert (answer.context.policy["sandbox"], answer.narrowed) == ("workspace-write", [])


async def test_a_child_by_parent_id_is_below_its_parent() -> None:
    """DESIGN: inheritance is a snapshot; `because` is `ancestor:ID`; closing a parent leaves its children."""
    async with stage("ok") as on:
        parent = await on.session.open(sandbox="read-only", base_instructions="For the parent.")
        child = await on.session.open(parent_id=parent.id, sandbox="workspace-write")
        context = await child.context()
        assert (context.policy["sandbox"], context.base_instructions) == ("read-only", None)
        assert [cut.because for cut in context.narrowed] == [f"ancestor:{parent.id}"]
        assert (child.info.parent_id, child.info.depth) == (parent.id, 2)
        by_name = await on.session.open(parent_id="root")
        assert (by_name.info.parent_id, by_name.info.depth) == (on.root.id, 1)
        await parent.close()
        assert (await child.set_context(sandbox="workspace-write")).context.policy["sandbox"] == "read-only"
        assert (await child.message("hi")).text == "ok"


@each_row(
    ("fields", "error"),
    [
        ({"nonsense": 1}, InvalidParamsError),
        ({"base_instructions": ["list"]}, InvalidParamsError),
        ({"parent_id": "nobody"}, NotFoundError),
        ({"agent": {"name": "../a"}}, InvalidParamsError),
        ({"backend": "nobody"}, InvalidParamsError),
        ({"model": "nobody/gpt"}, InvalidParamsError),
        ({"model": "scripted/no/such/file.json"}, InvalidParamsError),
        ({"title": "x" * 201}, InvalidParamsError),
        ({"title": "\ud800"}, InvalidParamsError),
        ({"limits": {"task_timeout_s": 0}}, InvalidParamsError),
        ({"mcp_tool_allowlist": ["fs__read"]}, InvalidParamsError),
    ],
)
async def test_a_conversation_that_cannot_be_opened_leaves_nothing_behind(
    fields: dict[str, Any], error: type[Exception]
) -> None:
    """S000-29, S000-32: refused before it exists; no event, no conversation, no journal entry."""
    async with stage(journal=(disk := Disk())) as on:
        before = (len(on.session.conversations()), on.parts.bus.last_seq, len(disk.items))
        with pytest.raises(error):
            await on.session.open(**fields)
        assert (len(on.session.conversations()), on.parts.bus.last_seq, len(disk.items)) == before


async def test_camel_case_is_accepted_and_both_spellings_are_not() -> None:
    """S000-35"""
    async with stage() as on:
        made = await on.session.open(baseInstructions="Be kind.", includePlanTool=False)
        assert (await made.context()).base_instructions == "Be kind."
        with pytest.raises(InvalidParamsError, match="twice"):
            await on.session.open(base_instructions="a", baseInstructions="b")


async def test_there_is_a_most_and_a_closed_one_makes_room() -> None:
    async with stage(limits={"max_conversations": 2}) as on:
        first = await on.session.open()
        await on.session.open()
        for refused in (on.session.open(), on.root.fork()):
            with pytest.raises(LimitError, match="max_conversations"):
                await refused
        await first.close()
        await on.session.open()
        assert len(on.session.conversations()) == 3


async def test_without_a_most_there_is_none() -> None:
    async with stage(limits={"max_conversations": None}) as on:
        for _ in range(20):
            await on.session.open()
        assert len(on.session.conversations()) == 21


class Servers:
    """Offer what they are told to."""

    tools: tuple[Any, ...] = ()

    def list_tools(self, conversation: Any = None) -> tuple[Any, ...]:
        return self.tools

    def absent(self) -> tuple[str, ...]:
        return ()


def serve_tools(on: Stage, *tools: Any) -> None:
    """From now on servers offer these tools."""
    servers = Servers()
    servers.tools = tools
    on.parts.terms_resolver._mcp = lambda: servers
    assert on.parts.servers.reports() == []  # made, so that views follow them


def names(conversation: tertulia.Conversation) -> list[str]:
    return [tool.name for tool in conversation.tools()]


async def test_tools_that_claim_one_name_are_refused_where_they_would_be_offered() -> None:
    """X-26, S002-51: ToolConflict at open and at set_context; nothing is left, and a narrower one is fine."""
    async with stage() as on:
        serve_tools(on, mcp("a__b", "c"), mcp("a", "b__c"), mcp("fs", "read"))
        seq = on.parts.bus.last_seq
        with pytest.raises(ToolConflictError, match="a__b__c"):
            await on.session.open()
        assert (len(on.session.conversations()), on.parts.bus.last_seq) == (1, seq)
        made = await on.session.open(mcp_tool_allowlist=["fs__read"])
        assert names(made) == [*BUILT_IN, *CONV_TOOLS, "fs__read"]
        before = on.parts.conversations.find(made.id).terms
        with pytest.raises(ToolConflictError):
            await made.set_context(mcp_tool_allowlist=None)
        assert on.parts.conversations.find(made.id).terms is before


async def test_where_so_configured_a_conflict_is_a_warning_and_the_name_is_offered_to_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with stage(on_tool_conflict="skip") as on:
        serve_tools(on, mcp("a__b", "c"), mcp("a", "b__c"), mcp("fs", "read"))
        conversation, settled = on.parts.conversations.open(NewConversation())
        assert len(settled.warnings) == 1
        assert "a__b__c" in settled.warnings[0]
        assert settled.warnings[0] in caplog.text
        assert names(on.session.conversation(conversation.id)) == [*BUILT_IN, *CONV_TOOLS, "fs__read"]


async def test_two_functions_of_one_name_are_refused_when_the_session_starts() -> None:
    @tertulia.tool(name="same")
    async def one(text: str) -> str:
        """One."""
        return text

    @tertulia.tool(name="same")
    async def two(number: int) -> str:
        """Two."""
        return str(number)

    with pytest.raises(ToolConflictError, match="same"):
        async with tertulia.Session.start(tertulia.Settings(tools=[one, two])):
            raise AssertionError("entered")


async def test_a_changed_definition_comes_back_when_a_refresh_is_asked_for_and_not_before() -> None:
    """S000-22, X-23: a snapshot; `refresh_mcp_view` rebuilds it."""
    async with stage() as on:
        serve_tools(on, mcp("fs", "read"))
        assert names(on.root) == [*BUILT_IN, *CONV_TOOLS, "fs__read"]
        serve_tools(on, mcp("fs", "read", "another"))
        await on.root.set_context(title="no refresh")
        assert names(on.root) == [*BUILT_IN, *CONV_TOOLS]
        await on.root.set_context(refresh_mcp_view=True)
        assert names(on.root) == [*BUILT_IN, *CONV_TOOLS, "fs__read"]


async def test_who_looks_sees_one_moment_and_who_makes_or_closes_does_it_whole() -> None:
    """S002-32: looking up disturbs nobody; opening and closing happen between two looks, never during one."""
    async with stage() as on:
        made = await asyncio.gather(*(on.session.open(title=str(number)) for number in range(50)))
        assert len({conversation.id for conversation in made}) == 50
        seen = []
        for state in on.parts.conversations:
            seen.append(state.id)
            if len(seen) % 2:
                await on.session.open()
            elif state.id != on.root.id:
                await on.session.conversation(state.id).close()
        assert seen == [on.root.id, *(conversation.id for conversation in made)]
        assert len(on.parts.conversations) == 51 + 26 - 25


async def test_a_title_is_trimmed_and_kept() -> None:
    async with stage() as on:
        made = await on.session.open(title="  a title  ")
        assert made.info.title == "a title"
        assert (await on.session.open(title=None)).info.title is None


async def test_what_was_cut_earlier_is_remembered_until_it_is_asked_for_anew() -> None:
    async with stage(sandbox="read-only", network=False) as on:
        made = await on.session.open(sandbox="workspace-write")
        await made.set_context(title="x")
        assert [cut.field for cut in (await made.context()).narrowed] == ["sandbox"]
        fork = await made.fork()
        assert [cut.field for cut in (await fork.context()).narrowed] == ["sandbox"]
        await made.set_context(sandbox="read-only")
        assert (await made.context()).narrowed == []
        await made.close()
        assert made.id not in on.parts.conversations._narrowed


async def test_everything_that_joins_a_history_is_handed_to_the_journal_once() -> None:
    """S002-23, X-35: seeds, input, answer; a fork says where it comes from and repeats nothing."""
    async with stage(say("ok", repeat=True), journal=(disk := Disk())) as on:
        await on.root.message("hi")
        assert [item.text.split("\n")[0] for item in disk.items] == ["<environment_context>", "hi", "ok"]
        fork = await on.root.fork()
        assert len(disk.items) == 3
        assert disk.forks == [ForkRecord(fork.id, on.root.id, 3, 3)]


def test_open_and_set_context_take_the_same_fields() -> None:
    """S000-32, S000-34: one vocabulary; update adds only what an update needs."""
    opened, changed = set(NewConversation.__struct_fields__), set(SetContext.__struct_fields__)
    assert {
        "base_instructions",
        "user_instructions",
        "mcp_tool_allowlist",
        "include_plan_tool",
        "include_apply_patch_tool",
        "tools_web_search_request",
    } <= opened
    assert opened - changed == {"parent_id"}
    assert changed - opened == {"conversation_id", "refresh_mcp_view"}
