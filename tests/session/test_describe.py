"""How conversations, tools and tasks are shown: one rendering for everybody."""

from __future__ import annotations

import asyncio

import pytest

import tertulia
from tertulia.errors import NotFoundError
from tertulia.session import describe
from tertulia.testing import FakeClock, say
from tests.session.staging import Disk, stage, ticks


async def test_a_session_shows_its_policy_in_wire_spelling() -> None:
    async with stage(
        sandbox="danger-full-access", approval_policy="never", network=True, storage_policy={"ttl": 60}
    ) as on:
        info = describe.session(on.parts)
        assert info.policy == {
            "approval": "never",
            "sandbox": "danger-full-access",
            "network": True,
            "storage": {"ttl": 60},
        }
        assert info.mcp == []
        assert info.protocol_version == "1"


async def test_a_line_of_a_list_says_when_something_last_happened() -> None:
    """S004-23: refreshed by what is said and by the end of a task."""
    clock = FakeClock(now=0)
    async with stage("ok", clock=clock) as on:
        made = await on.session.open()
        clock.advance(60)
        assert made.info.last_active_at == "1970-01-01T00:00:00.000Z"
        await made.message("hi")
        assert made.info.last_active_at == "1970-01-01T00:01:00.000Z"
        info = made.info
        assert (info.model, info.backend, info.message_count, info.status) == ("scripted/inline", "native", 2, "idle")


async def test_the_cost_of_the_prompt_grows_with_what_is_in_it() -> None:
    async with stage(say("ok", repeat=True)) as on:
        before = (await on.root.context()).prompt_tokens
        await on.root.message("word " * 1_000)
        after = (await on.root.context()).prompt_tokens
        assert after > before + 500


async def test_the_cache_key_changes_with_instructions_and_tools_and_with_nothing_else() -> None:
    """S000-45"""
    async with stage(say("ok", repeat=True)) as on:
        one, same = await on.session.open(base_instructions="A"), await on.session.open(base_instructions="A")
        keys = [(await c.context()).cache_key for c in (one, same, on.root)]
        assert keys[0] == keys[1] != keys[2]
        await one.message("hi")
        assert (await one.context()).cache_key == keys[0]
        await one.set_context(include_plan_tool=False)
        assert (await one.context()).cache_key != keys[0]


async def test_a_history_entry_without_text_has_none() -> None:
    async with stage("ok") as on:
        await on.root.message([{"type": "image", "image_url": "https://example.org/a.png"}])
        entry = describe.history(on.parts.conversations.root, None)[0]
        assert (entry.text, entry.attachments[0]["type"]) == (None, "image")


async def test_a_task_can_be_asked_for_until_it_is_forgotten() -> None:
    async with stage("ok") as on:
        reply = await on.root.message("hi")
        info = describe.task(on.parts, reply.task_id)
        assert (info.status, info.last_assistant_message, info.chain) == ("completed", "ok", [on.root.id])
        with pytest.raises(NotFoundError) as refusal:
            describe.task(on.parts, "x" * 10_000)
        assert len(refusal.value.message) < 200


async def test_a_task_whose_answer_is_being_written_is_still_running() -> None:
    async with stage("ok", journal=(disk := Disk())) as on:
        running = on.begin(on.root.message("hi"))
        started = await on.until("task_started")
        disk.holding = True
        while "task_complete" not in [event.type for event, _ in disk.open]:
            disk.commit(len(disk.open))
            await ticks(1)
        assert describe.tasks(on.parts) == []
        assert describe.task(on.parts, str(started.task_id)).status == "running"
        disk.commit()
        disk.holding = False
        assert (await running).status == "completed"


async def test_who_runs_is_listed_before_who_waits() -> None:
    async with stage(say("never", gate=asyncio.Event()), "two", clock=FakeClock(now=0)) as on:
        other = await on.session.open()
        running, waiting = on.begin(on.root.message("1")), on.begin(other.message("2"))
        await on.asked(1)
        listed = describe.tasks(on.parts)
        assert [(t.status, t.conversation_id, t.started_at) for t in listed] == [
            ("running", on.root.id, "1970-01-01T00:00:00.000Z"),
            ("queued", other.id, None),
        ]
        await on.root.interrupt()
        assert ((await running).status, (await waiting).text) == ("interrupted", "two")


async def test_policy_in_four_words() -> None:
    async with stage() as on:
        assert set(describe.policy(on.parts.conversations.root.terms.rights)) == {
            "approval",
            "sandbox",
            "network",
            "storage",
        }
        assert on.session.info.protocol_version == describe.PROTOCOL_VERSION
        assert on.session.info.version == tertulia.__version__
