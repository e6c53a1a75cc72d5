"""The five conversation tools: what they are called, what they take, what they answer."""

from __future__ import annotations

import json
import uuid
from datetime import datetime
from pathlib import Path
from typing import Any

import tertulia
from tertulia.protocol.tool_spec import CONV_TOOLS
from tertulia.testing import FakeClock, call, say
from tertulia.tools.conv import CONV_SPECS, conv_tools
from tests.delegation.delegation_stage import Play, create, destroy, play, send
from tests.session.staging import BUILT_IN
from tests.tables import each_row

PIXEL = "data:image/png;base64,iVBORw0KGgo="


async def list_of(on: Play, who: tertulia.Conversation | None = None) -> list[dict[str, Any]]:
    on.write(say("", call("conv_list", {}, "l1")), "ok")
    who = who or on.root
    await who.message("list")
    answer = on.heard(who)[-1]
    assert set(answer) == {"ok", "conversations"}
    return answer["conversations"]


async def history_of(on: Play, whom: tertulia.Conversation, **arguments: Any) -> list[dict[str, Any]]:
    on.write(say("", call("conv_history", {"conversation_id": whom.id, **arguments}, "h1")), "ok")
    await on.root.message("read")
    answer = on.heard()[-1]
    assert set(answer) == {"ok", "entries"}
    return answer["entries"]


# ---- as models see them


def test_there_are_five_in_a_fixed_order() -> None:
    """S004-01, X-01: names that every provider accepts."""
    tools = conv_tools(None)  # type: ignore[arg-type]
    assert tuple(tool.spec.name for tool in tools) == CONV_TOOLS
    assert {tool.spec.source for tool in tools} == {"conv"}


async def test_they_are_offered_by_default_after_the_other_built_ins_and_before_functions() -> None:
    """S004-01, X-20"""

    @tertulia.tool
    async def mine() -> str:
        """Mine."""
        return ""

    async with play("hi", tools=[mine]) as on:
        assert [tool.name for tool in on.root.tools()] == [*BUILT_IN, *CONV_TOOLS, "mine"]
        assert {tool.source for tool in on.root.tools() if tool.name in CONV_TOOLS} == {"conv"}


async def test_a_conversation_can_do_without_them() -> None:
    """X-20: `include_conv_tools`, and a call that is made all the same is refused."""
    async with play() as on:
        a = await on.session.open(include_conv_tools=False)
        assert not [tool for tool in a.tools() if tool.name in CONV_TOOLS]
        on.write(say("", create()), "no")
        await a.message("go")
        assert on.heard(a)[0]["code"] == "not_found"
        assert len(on.ids()) == 2


def test_descriptions_say_which_interrupt() -> None:
    """S004-02"""
    descriptions = {spec.name: spec.description for spec in CONV_SPECS}
    assert all("Interrupts:" in descriptions[name] for name in ("conv_create", "conv_send"))
    assert all("Does not interrupt" in descriptions[name] for name in ("conv_list", "conv_history", "conv_destroy"))
    assert all(len(text) < 250 for text in descriptions.values())


def test_schemas_are_small() -> None:
    """The issue: small schemas, the common parameters first, advanced ones optional."""
    sizes = {spec.name: len(spec.schema) for spec in CONV_SPECS}
    assert sum(sizes.values()) < 3_500
    required = {spec.name: json.loads(spec.schema)["required"] for spec in CONV_SPECS[:3]}
    assert required == {"conv_create": [], "conv_send": ["conversation_id"], "conv_list": []}


async def test_a_dotted_name_is_an_alias_that_no_model_ever_sees() -> None:
    """X-01: accepted on dispatch; the history, which goes back to the model, has the real name."""
    async with play(say("", call("conv.create", {"user_instruction": "x"}, "c1")), "B", "A") as on:
        await on.root.message("go")
        assert on.heard()[0]["last_assistant_message"] == "B"
        assert "A tool_call_begin c1 conv_create" in on.score()
        assert b"conv.create" not in b"".join(on.model.last_request.request.chunks)
        assert b"conv.create" not in on.model.last_request.request.tools_json


# ---- create


async def test_create_answers_with_the_id_the_first_input_and_the_last_answer() -> None:
    """S004-05, S004-34, X-02: a JSON string with a status; the id is a uuid and can be used."""
    async with play(say("", create(task="Count to three.")), "one two three", "A") as on:
        await on.root.message("go")
        (answer,) = on.heard()
        assert answer == {
            "ok": True,
            "status": "completed",
            "conversation_id": on.ids()[1],
            "first_user_message": "Count to three.",
            "last_assistant_message": "one two three",
        }
        assert str(uuid.UUID(answer["conversation_id"])) == answer["conversation_id"]
        on.write(say("", send(answer["conversation_id"], "c2")), "four", "A")
        await on.root.message("more")
        assert on.heard()[1] == {
            "ok": True,
            "status": "completed",
            "conversation_id": answer["conversation_id"],
            "last_assistant_message": "four",
        }


async def test_input_is_text_then_items(tmp_path: Path) -> None:
    """X-07, S004-03: and the payload counts the items."""
    picture = tmp_path / "a.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + b"\0\0\0\1" * 2)
    items = [
        {"type": "text", "text": "and"},
        {"type": "image", "image_url": PIXEL},
        {"type": "local_image", "path": "a.png"},
    ]
    async with play(say("", create(task="first", items=items)), "B", "A", cwd=str(tmp_path)) as on:
        await on.root.message("go")
        assert on.heard()[0]["first_items_count"] == 3
        message = on.model.requests[1].items[-1]
        assert [type(part).__name__ for part in message.parts] == ["TextPart", "TextPart", "ImagePart", "ImagePart"]
        assert message.parts[0].text == "first"


async def test_items_alone_are_enough() -> None:
    """S004-03, S004-06"""
    async with play() as on:
        b = await on.session.open()
        items = [{"type": "text", "text": "only this"}]
        on.write(say("", call("conv_create", {"items": items}, "c1")), "B", "A")
        on.write(say("", call("conv_send", {"conversation_id": b.id, "items": items}, "c2")), "C", "A")
        await on.root.message("one")
        await on.root.message("two")
        assert [answer["ok"] for answer in on.heard()] == [True, True]
        assert "first_user_message" not in on.heard()[0]
        assert [entry.text for entry in await b.history()] == ["only this", "C"]


async def test_the_first_input_is_recorded_once_and_the_callers_instructions_are_inherited() -> None:
    """S004-21, X-06: `user_instructions` is context and inherited, `user_instruction` is input and read once."""
    async with play() as on:
        a = await on.session.open(base_instructions="Be brief.", user_instructions="We like tea.")
        on.write(say("", create(task="Count.")), "B", "A")
        await a.message("go")
        child = on.model.requests[1]
        texts = [getattr(item, "text", "") for item in child.items]
        assert sum("Count." in text for text in texts) == 1
        assert sum("We like tea." in text for text in texts) == 1
        assert child.instructions.startswith("Be brief.")
        assert "go" not in texts


@each_row("empty", [{}, {"base_instruction_text": "", "base_instruction_file": "", "model": ""}])
async def test_what_is_not_said_is_inherited(empty: dict[str, Any]) -> None:
    """S004-03: neither text nor file gives the caller's own; models that fill in every parameter leave texts empty."""
    async with play() as on:
        a = await on.session.open(base_instructions="Be brief.", include_plan_tool=False)
        on.write(say("", create(**empty)), "B", "A")
        await a.message("go")
        child = on.session.conversations()[-1]
        assert (await child.context()).base_instructions == "Be brief."
        assert "update_plan" not in [tool.name for tool in child.tools()]


async def test_create_takes_instructions_a_title_and_a_model() -> None:
    """Beyond the documents: `model`, `backend` and `title`."""
    async with play() as on:
        arguments = {"base_instruction_text": "You count.", "title": "counter", "backend": "native"}
        on.write(say("", create(**arguments, model="scripted/tour")), "A")
        await on.root.message("go")
        child = on.session.conversations()[1]
        assert (child.info.title, child.info.model, child.info.backend) == ("counter", "scripted/tour", "native")
        assert (await child.context()).base_instructions == "You count."
        assert on.heard()[0]["ok"]


@each_row(
    ("override", "expected"),
    [
        ({"include_plan_tool": False}, {"include_plan_tool": False}),
        ({"include_apply_patch_tool": False}, {"include_apply_patch_tool": False}),
        ({"include_conv_tools": False}, {"include_conv_tools": False}),
        ({"web_search_request": False}, {"web_search_request": False}),
        ({"use_streamable_shell_tool": True}, {"shell_mode": "streamable"}),
        ({"use_streamable_shell_tool": False}, {"shell_mode": "with_request"}),
        ({}, {}),
    ],
)
async def test_a_partial_object_overrides_only_its_keys(override: dict[str, bool], expected: dict[str, Any]) -> None:
    """S004-03, X-19"""
    async with play(tools_web_search_request=True) as on:
        before = (await on.root.context()).tools_prefs
        on.write(say("", create(internal_tools=override)), "B", "A")
        await on.root.message("go")
        after = (await on.session.conversations()[1].context()).tools_prefs
        assert after == before | expected


@each_row(("policy", "mode"), [("untrusted", "default"), ("on-request", "with_request")])
async def test_without_the_streamable_shell_it_is_the_one_the_policy_asks_for(policy: str, mode: str) -> None:
    """X-19"""
    async with play(approval_policy=policy, shell_mode="streamable") as on:
        on.write(say("", create(internal_tools={"use_streamable_shell_tool": False})), "B", "A")
        await on.root.message("go")
        assert (await on.session.conversations()[1].context()).tools_prefs["shell_mode"] == mode


@each_row("streamable", [True, False])
async def test_who_has_no_shell_hands_none_on(streamable: bool) -> None:
    async with play(shell_mode="none") as on:
        on.write(say("", create(internal_tools={"use_streamable_shell_tool": streamable})), "B", "A")
        await on.root.message("go")
        context = await on.session.conversations()[1].context()
        assert context.tools_prefs["shell_mode"] == "none"
        assert [cut.field for cut in context.narrowed] == (["shell_mode"] if streamable else [])


# ---- fork_history


async def told_child(on: Play) -> list[str]:
    """What the child's model read, without what we inject."""
    return [
        f"{type(item).__name__} {item.text}"
        for item in on.model.requests[-2].items
        if not getattr(item, "injected", False)
    ]


@each_row(
    ("fork", "expected"),
    [
        ("none", []),
        (1, ["UserMessage three", "AssistantMessage thinking"]),
        (2, ["UserMessage two", "AssistantMessage 2", "UserMessage three", "AssistantMessage thinking"]),
        (99, ["UserMessage one", "AssistantMessage 1", "UserMessage two", "AssistantMessage 2", "UserMessage three",
              "AssistantMessage thinking"]),
        ("all", ["UserMessage one", "AssistantMessage 1", "UserMessage two", "AssistantMessage 2", "UserMessage three",
                 "AssistantMessage thinking"]),
    ],
)  # fmt: skip
async def test_a_child_may_start_with_a_part_of_this_conversation(fork: Any, expected: list[str]) -> None:
    """Beyond the documents: none, all or the last n rounds; it ends before the open call, and shares the segments."""
    async with play("1", "2") as on:
        await on.root.message("one")
        await on.root.message("two")
        on.write(say("thinking", create(fork_history=fork, internal_tools={"include_plan_tool": False})), "B", "A")
        await on.root.message("three")
        assert await told_child(on) == [*expected, "UserMessage do it"]
        assert [entry.text for entry in await on.root.history()] == ["one", "1", "two", "2", "three", "thinking", "A"]
        child, root = on.parts.conversations.find(on.ids()[1]), on.parts.conversations.root
        own, callers = set(map(id, child.history.snapshot())), set(map(id, root.history.snapshot()))
        # The newest answer is one segment with the call, which the child does not get.
        assert len(own & callers) >= len(expected) - 1
        on.check_idle()


async def test_a_child_that_starts_with_this_conversation_is_told_where_it_differs(tmp_path: Path) -> None:
    """Seeds say what holds for the caller; what holds here is said after them."""
    async with play("1", tools_web_search_request=True) as on:
        narrow = await on.session.open(user_instructions="We like tea.", sandbox="read-only")
        on.write("1")
        await narrow.message("one")
        on.write(say("", create(fork_history="all")), "B", "A")
        await narrow.message("two")
        seeds = [item.text for item in on.model.requests[-2].items if getattr(item, "injected", False)]
        assert sum("We like tea." in text for text in seeds) == 1
        assert sum("read-only" in text for text in seeds) == 1


# ---- list


async def test_list_gives_root_first_then_by_creation() -> None:
    """S004-07, S004-08, S004-27, X-17, X-18: deterministic, counts messages only, times are RFC 3339 in UTC."""
    clock = FakeClock()
    async with play(clock=clock) as on:
        opened = [await on.session.open(title=f"number {n}") for n in range(5)]
        on.write(say("", create(title="child")), "B", "A")
        clock.advance(60)
        await opened[2].message("go")
        listed = await list_of(on)
        assert [line["id"] for line in listed] == on.ids()
        assert [line["message_count"] for line in listed] == [1, 0, 0, 2, 0, 0, 2]
        assert [line["depth"] for line in listed] == [0, 1, 1, 1, 1, 1, 2]
        assert [line["status"] for line in listed] == ["running", *["idle"] * 6]
        assert listed[0]["parent_id"] is None
        assert listed[-1]["parent_id"] == opened[2].id
        assert [line["title"] for line in listed] == [None, *(f"number {n}" for n in range(5)), "child"]
        for line in listed:
            assert line["last_active_at"].endswith("Z")
            assert datetime.fromisoformat(line["last_active_at"]).tzinfo is not None
        assert listed[3]["last_active_at"] > listed[2]["last_active_at"]
        started = [line for line in on.score() if "task_started" in line]
        assert started[-1] == "A task_started user"


async def test_a_conversation_is_active_when_something_is_written_there_and_when_its_task_ends() -> None:
    """S004-23"""
    clock = FakeClock()

    @tertulia.tool
    async def wait() -> str:
        """Let a minute pass."""
        clock.advance(60)
        return "{}"

    async with play(clock=clock, tools=[wait]) as on:
        b = await on.session.open()
        before = b.info.last_active_at
        clock.advance(60)
        on.write(say("", call("wait", {}, "w1")), "B")
        await b.message("go")
        assert b.info.last_active_at == _later(before, 120)


def _later(stamp: str, seconds: int) -> str:
    moment = datetime.fromisoformat(stamp).timestamp() + seconds
    return datetime.fromtimestamp(moment, tz=datetime.fromisoformat(stamp).tzinfo).strftime("%Y-%m-%dT%H:%M:%S.000Z")


async def test_a_waiting_conversation_is_listed_as_such() -> None:
    async with play() as on:
        on.write(say("", create()), say("", call("conv_list", {}, "l1")), "B", "A")
        await on.root.message("go")
        listed = on.heard(on.session.conversations()[1])[0]["conversations"]
        assert [line["status"] for line in listed] == ["waiting", "running"]


async def test_a_list_that_is_too_long_keeps_root_and_the_newest() -> None:
    async with play(limits={"max_output_bytes": 4_000}) as on:
        for _ in range(50):
            await on.session.open()
        on.write(say("", call("conv_list", {}, "l1")), "ok")
        await on.root.message("list")
        (answer,) = on.heard()
        ids = [line["id"] for line in answer["conversations"]]
        assert ids == [on.ids()[0], *on.ids()[-len(ids) + 1 :]]
        assert answer["omitted"] == 51 - len(ids)
        (end,) = [e.data for e in on.events.drain() if e.type == "tool_call_end"]
        assert (end.truncated, len(end.output) <= 4_000) == (True, True)


# ---- history


async def test_history_gives_messages_only() -> None:
    """S004-09, S004-10, S004-35: no calls, no outputs, no reasoning, nothing that was injected."""

    @tertulia.tool
    async def note() -> str:
        """Note."""
        return "noted"

    async with play(tools=[note]) as on:
        b = await on.session.open(user_instructions="We like tea.")
        on.write(say("Let me see.", call("note", {}, "n1"), reasoning="hm"), "There.")
        await b.message([{"type": "text", "text": "Look:"}, {"type": "image", "image_url": PIXEL}])
        assert await history_of(on, b) == [
            {"role": "user", "text": "Look:", "attachments": [{"type": "image", "image_url": PIXEL}]},
            {"role": "assistant", "text": "Let me see.", "attachments": []},
            {"role": "assistant", "text": "There.", "attachments": []},
        ]


@each_row(("limit", "expected"), [(1, ["4"]), (3, ["two", "3", "4"]), (99, ["one", "1", "two", "3", "4"])])
async def test_a_limit_keeps_the_newest_oldest_first(limit: int, expected: list[str]) -> None:
    """S004-10, X-17"""

    @tertulia.tool
    async def note() -> str:
        """Note."""
        return "noted"

    async with play(tools=[note]) as on:
        b = await on.session.open()
        on.write("1", say("3", call("note", {}, "n1")), "4")
        await b.message("one")
        await b.message("two")
        assert [entry["text"] for entry in await history_of(on, b, limit=limit)] == expected


async def test_a_picture_without_words_has_no_text() -> None:
    """S004-09: `text` is optional."""
    async with play() as on:
        b = await on.session.open()
        on.write("B")
        await b.message([{"type": "image", "image_url": "https://example.invalid/a.png"}])
        first = (await history_of(on, b))[0]
        assert first == {
            "role": "user",
            "attachments": [{"type": "image", "image_url": "https://example.invalid/a.png"}],
        }


async def test_one_can_read_oneself() -> None:
    async with play() as on:
        assert [entry["text"] for entry in await history_of(on, on.root)] == ["read"]


# ---- destroy


async def test_destroy_closes_a_conversation_and_no_other() -> None:
    """S004-11, S004-27: {ok: true}, without an interrupt; what was queued for it is answered."""
    async with play() as on:
        b, c = await on.session.open(), await on.session.open()
        on.write(say("", destroy(b)), "A")
        running = on.begin(on.root.message("go"))
        queued = on.begin(b.message("hello?"))
        assert (await running).text == "A"
        assert on.heard() == [{"ok": True}]
        assert (await queued).status == "interrupted"
        assert on.ids() == [on.root.id, c.id]
        assert not [line for line in on.score() if "replaced" in line]


async def test_a_parent_can_be_destroyed_and_its_children_stay() -> None:
    """DESIGN, Operations: closing a parent leaves its children, whose ceiling was fixed when they were made."""
    async with play() as on:
        a = await on.session.open(sandbox="read-only")
        on.write(say("", create()), "B", "A")
        await a.message("go")
        child = on.session.conversations()[-1]
        on.write(say("", destroy(a)), "gone")
        await on.root.message("tidy up")
        assert on.ids() == [on.root.id, child.id]
        assert (await child.context()).policy["sandbox"] == "read-only"
