"""What a conversation sees of MCP servers, as the public page promises it."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tertulia
from tertulia import errors
from tertulia.testing import call
from tests.contract.python_session import past, soon, start_session
from tests.contract.serving_tools import Voice, define, ends, kinds, modern, offered, offering, spoilt, table, tool
from tests.deadlines import HANG_S
from tests.tables import each_row

NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")


async def test_the_same_set_is_listed_offered_and_callable() -> None:
    """S000-20, S000-24, S000-27, S000-38, S002-38, X-66."""
    voice = Voice()
    async with voice.session({"b": offering("pid", "echo"), "a": offering("echo")}) as session:
        narrow = await session.open(mcp_tool_allowlist=["b__echo"])
        assert offered(session.root) == ["a__echo", "b__echo", "b__pid"]
        assert offered(narrow) == ["b__echo"]
        for name in ("b__echo", "b__pid", "a__echo"):
            voice.calls(name, text="x")
            await soon(narrow.message("go"))
        seen = [[name for name in request.tools if "__" in name] for request in voice.model.requests]
        assert seen == [["b__echo"]] * 6
        assert len(await kinds(session, "mcp_tool_call_begin")) == 1, "one call got through"
        (first, text), (second, _), (third, _) = await ends(session, narrow)
        assert (first, text, second, third) == (True, "x", False, False)


async def test_mcp_tools_come_last_and_by_name() -> None:
    """X-27: built-ins, conv tools, functions, MCP tools by FQN in code-point order."""

    @tertulia.tool
    def zzz() -> str:
        """Nothing."""
        return ""

    async with start_session(mcp_servers={"Z": offering("pid"), "a": offering("echo", "Echo")}, tools=[zzz]) as session:
        listed = [(tool.source, tool.name) for tool in session.root.tools()]
        assert listed[-4:] == [("function", "zzz"), ("mcp", "Z__pid"), ("mcp", "a__Echo"), ("mcp", "a__echo")]
        assert [source for source, _ in listed[:-4]] == sorted(source for source, _ in listed[:-4])


@each_row("entry", ["a__ecko", "a/ecko", "nobody__echo", "a__", "__echo", "a__b c", "", "a/b/c", "*", "a*"])
async def test_an_unknown_or_illegal_entry_opens_nothing(entry: str) -> None:
    """S000-29, S000-42, X-24: nothing is created, and the nearest names are told."""
    async with start_session(mcp_servers={"a": offering("echo")}) as session:
        conversations, news = session.conversations(), await past(session)
        with pytest.raises(errors.InvalidParamsError) as refused:
            await session.open(mcp_tool_allowlist=["a__echo", entry])
        assert "mcp_tool_allowlist" in refused.value.message
        if entry.endswith("ecko"):
            assert "a__echo" in refused.value.message
        marks = [
            conversation.info.title for conversation in session.conversations() if conversation not in conversations
        ]
        assert marks == ["mark"], "only what the test itself opened"
        types = [event.type for event in (await past(session))[len(news) :]]
        assert set(types) <= {"conversation_opened", "error"}


@each_row("entries", ["a__echo", {"a__echo": 1}, [1], [None], [["a__echo"]]])
async def test_an_allowlist_is_a_list_of_names(entries: Any) -> None:
    """S000-42."""
    async with start_session(mcp_servers={"a": offering("echo")}) as session:
        before = session.conversations()
        with pytest.raises(errors.InvalidParamsError):
            await session.open(mcp_tool_allowlist=entries)
        assert session.conversations() == before


async def test_nothing_everything_whole_servers_and_repeated_entries() -> None:
    """S000-21, X-24: `[]` none, null all, `server__*` a server."""
    async with start_session(mcp_servers={"a": offering("echo", "pid"), "b": offering("echo")}) as session:
        for entries, seen in (
            ([], []),
            (None, ["a__echo", "a__pid", "b__echo"]),
            (["a__*"], ["a__echo", "a__pid"]),
            (["b__echo", "b__echo", "a__*", "a__pid"], ["a__echo", "a__pid", "b__echo"]),
        ):
            assert offered(await session.open(mcp_tool_allowlist=entries)) == seen


async def test_the_old_spelling_says_so_once_a_request(caplog: pytest.LogCaptureFixture) -> None:
    """S000-26: in `warnings` and in the log, one line, not one an entry."""
    async with start_session(mcp_servers={"a": offering("echo", "pid")}) as session:
        caplog.set_level("INFO")
        conversation = await session.open(mcp_tool_allowlist=["a/echo", "a/pid"])
        assert offered(conversation) == ["a__echo", "a__pid"]
        assert len(conversation.warnings) == 1
        logged = [record.getMessage() for record in caplog.records if "deprecat" in record.getMessage().lower()]
        assert len(logged) == 1, caplog.text


async def test_a_name_of_a_server_that_is_down_is_kept_with_a_warning() -> None:
    """X-24, C11."""
    servers = {"down": spoilt("dies-at-start"), "up": offering("echo")}
    async with start_session(mcp_servers=servers) as session:
        conversation = await session.open(mcp_tool_allowlist=["down__anything", "up__echo"])
        assert offered(conversation) == ["up__echo"]
        assert len(conversation.warnings) == 1
        assert "down" in conversation.warnings[0]


async def test_set_context_narrows_widens_to_the_ceiling_and_refuses_strangers() -> None:
    """S000-22: absent keeps, null resets, effective from the next task."""
    async with start_session(mcp_servers={"a": offering("echo", "pid")}) as session:
        conversation = await session.open()
        await conversation.set_context(mcp_tool_allowlist=["a__echo"])
        assert offered(conversation) == ["a__echo"]
        await conversation.set_context(base_instructions="x")
        assert offered(conversation) == ["a__echo"]
        with pytest.raises(errors.InvalidParamsError):
            await conversation.set_context(mcp_tool_allowlist=["a__nothing"])
        assert offered(conversation) == ["a__echo"]
        await conversation.set_context(mcp_tool_allowlist=None)
        assert offered(conversation) == ["a__echo", "a__pid"]


async def test_a_child_never_sees_more_than_its_caller_and_may_see_less() -> None:
    """Narrowing: conv_create narrows from the caller, never from root."""
    voice = Voice()
    async with voice.session({"a": offering("echo", "pid", "roots")}) as session:
        caller = await session.open(mcp_tool_allowlist=["a__echo", "a__roots"])
        voice.calls("conv_create", user_instruction="go", mcp_allowlist=["a__pid", "a__echo"])
        voice.calls("a__pid")
        voice.calls("a__roots")
        voice.calls("a__echo", text="c")
        assert (await soon(caller.message("go"))).status == "completed"
        (made,) = [
            conversation for conversation in session.conversations() if conversation not in (session.root, caller)
        ]
        assert offered(made) == ["a__echo"]
        assert [success for success, _ in await ends(session, made)] == [False, False, True]
        with pytest.raises(errors.InvalidParamsError):
            await made.set_context(mcp_tool_allowlist=["a__nothing"])
        await made.set_context(mcp_tool_allowlist=None)
        assert "a__pid" not in offered(made), "null returns to the ceiling, not to everything"


@each_row(
    ("caller", "requested", "expected"),
    [
        (["a__*"], ["a__echo"], ["a__echo"]),
        (["a__echo"], ["a__*"], ["a__echo"]),
        (["a__*", "b__pid"], ["b__*", "a__pid"], ["a__pid", "b__pid"]),
        (["a__*"], ["b__*"], []),
        ([], ["a__*"], []),
    ],
)
async def test_whole_servers_and_single_tools_intersect(
    caller: list[str], requested: list[str], expected: list[str]
) -> None:
    """Narrowing: MCP allowlists intersect by what they stand for, not by how they are written."""
    voice = Voice()
    async with voice.session({"a": offering("echo", "pid"), "b": offering("echo", "pid")}) as session:
        conversation = await session.open(mcp_tool_allowlist=caller)
        voice.calls("conv_create", user_instruction="go", mcp_allowlist=requested)
        await soon(conversation.message("go"))
        (made,) = [other for other in session.conversations() if other not in (session.root, conversation)]
        assert offered(made) == expected


async def test_an_unknown_name_in_conv_create_is_an_output_and_makes_no_child() -> None:
    """S000-29 from the model's side."""
    voice = Voice()
    async with voice.session({"a": offering("echo")}) as session:
        voice.calls("conv_create", user_instruction="go", mcp_allowlist=["a__ecko"])
        assert (await soon(session.root.message("go"))).status == "completed"
        assert session.conversations() == [session.root]
        ((success, end),) = await ends(session, session.root)
        assert not success
        assert "a__echo" in end


async def test_a_wide_target_of_a_narrow_caller_may_do_no_more_than_the_caller() -> None:
    """While a chain runs, the strictest of the whole chain applies (no confused deputy)."""
    voice = Voice()
    async with voice.session({"a": offering("echo", "pid")}) as session:
        wide, narrow = await session.open(), await session.open(mcp_tool_allowlist=["a__echo"])
        voice.calls("conv_send", conversation_id=wide.id, text="go")
        voice.calls("a__pid")
        voice.calls("a__echo", text="ok")
        assert (await soon(narrow.message("go"))).status == "completed"
        assert [success for success, _ in await ends(session, wide)] == [False, True]
        voice.calls("a__pid")
        await soon(wide.message("again"))
        assert [success for success, _ in await ends(session, wide)] == [False, True, True]


# ---- pinned definitions


async def test_a_changed_definition_is_withheld_until_it_is_asked_for(tmp_path: Path) -> None:
    """C1, X-23, S000-22: by `tools/list_changed`; new ones appear, removed ones go, a changed one is withheld."""
    file = tmp_path / "tools.json"
    option = define(file, tool("kept"), tool("changed", "Adds."), tool("gone"), tool("define"))
    voice = Voice()
    async with voice.session({"a": table("--define", option)}) as session:
        conversation = await session.open()
        define(file, tool("kept"), tool("changed", "Deletes."), tool("new"), tool("define"))
        voice.calls("a__define", tools=[])
        await soon(conversation.message("change"))
        await _sees(session, conversation, ["a__define", "a__kept", "a__new"])
        (news, *_) = [data for data in await kinds(session, "mcp_tools_changed") if data.withheld]
        assert (news.added, news.removed, news.withheld) == (["a__new"], ["a__gone"], ["a__changed"])
        voice.calls("a__changed")
        await soon(conversation.message("try"))
        assert not (await ends(session, conversation))[-1][0]
        await conversation.set_context(refresh_mcp_view=True)
        assert offered(conversation) == ["a__changed", "a__define", "a__kept", "a__new"]
        assert offered(session.root) == ["a__define", "a__kept", "a__new"], "one conversation asks for itself alone"


async def _sees(session: tertulia.Session, conversation: tertulia.Conversation, names: list[str]) -> None:
    """Send messages until its view has followed; each is a task, and between tasks views are refreshed."""
    async with asyncio.timeout(HANG_S):
        while offered(conversation) != names:
            await conversation.message("and now?")


async def test_a_definition_that_changes_inside_a_task_is_not_called_in_it(tmp_path: Path) -> None:
    """C1: the view is of the task; the call is checked when it is made."""
    file = tmp_path / "tools.json"
    option = define(file, tool("echo", "Says."), tool("define"))
    voice = Voice()
    async with voice.session({"a": table("--define", option)}) as session:
        define(file, tool("echo", "Deletes."), tool("define"))
        voice.calls("a__define", tools=[])
        voice.next.extend([call("a__echo", {"text": "x"})] * 30)
        await soon(session.root.message("go"))
        outcomes = [success for success, _ in (await ends(session))[1:]]
        offers = {tuple(name for name in one.tools if "__" in name) for one in voice.model.requests}
        assert offers == {("a__define", "a__echo")}, "never inside a task"
        assert outcomes == sorted(outcomes, reverse=True), "once refused it stays refused"
        await _sees(session, session.root, ["a__define"])


async def test_a_list_that_runs_out_is_asked_for_again_between_tasks(tmp_path: Path) -> None:
    """X-23: `ttlMs`. A new tool appears, a changed one is withheld."""
    file = tmp_path / "tools.json"
    option = define(file, tool("echo", "Says."), ttlMs=1)
    async with Voice().session({"a": modern("--define", option)}) as session:
        assert offered(session.root) == ["a__echo"]
        define(file, tool("echo", "Deletes."), tool("version"), ttlMs=1)
        await _sees(session, session.root, ["a__version"])


async def test_a_server_of_the_new_era_tells_of_changes_too() -> None:
    """X-23: whoever listens hears of it."""
    voice = Voice()
    async with voice.session({"a": modern()}) as session:
        before = offered(session.root)
        voice.calls("a__change")
        await soon(session.root.message("go"))
        await _sees(session, session.root, sorted([*before, "a__new8"]))


async def test_a_listing_that_fails_keeps_the_view(tmp_path: Path) -> None:
    """X-23: failed listing keeps the old view."""
    file = tmp_path / "tools.json"
    voice = Voice()
    async with voice.session({"a": table("--define", define(file, tool("echo"), tool("define")))}) as session:
        file.write_text('{"tools": 7}')
        voice.calls("a__define", tools=[])
        await soon(session.root.message("go"))
        for _ in range(5):
            await soon(session.root.message("and now?"))
        assert offered(session.root) == ["a__define", "a__echo"]
        voice.calls("a__echo", text="still")
        await soon(session.root.message("go"))
        assert (await ends(session))[-1] == (True, "still")


async def test_too_many_tools_are_cut_aloud(tmp_path: Path) -> None:
    """C14 in spirit: bounded, and not in silence."""
    option = define(tmp_path / "t", *(tool(f"t{number:05}") for number in range(3_000)))
    async with Voice().session({"a": table("--define", option)}) as session:
        assert len(offered(session.root)) == 1_000
        assert any("3,000" in data.message for data in await kinds(session, "warning"))


@pytest.mark.parametrize("how", ["description", "schema", "hint"])
async def test_a_definition_that_changes_with_a_restart_is_withheld(tmp_path: Path, how: str) -> None:
    """C1: the server dies, comes back, and means something else by the name."""
    file = tmp_path / "tools.json"
    option = define(file, tool("echo", "Says."), tool("die"))
    other = {
        "description": tool("echo", "Says it all."),
        "schema": tool("echo", "Says.", {"type": "object", "properties": {"all": {"type": "boolean"}}}),
        "hint": tool("echo", "Says.", readOnlyHint=True),
    }[how]
    voice = Voice()
    async with voice.session({"a": table("--define", option)}) as session:
        define(file, other, tool("die"))
        voice.calls("a__die", code=1)
        voice.calls("a__echo", text="secret")
        await soon(session.root.message("go"))
        (died, _), (called, _) = await ends(session)
        assert (died, called) == (False, False)
        await session.open(mcp_tool_allowlist=["a__echo"])
        await _sees(session, session.root, ["a__die"])


async def test_what_is_only_said_in_another_order_is_the_same_tool(tmp_path: Path) -> None:
    """C18: keys and tools in another order are no change, and the cache key stays."""
    file = tmp_path / "tools.json"
    one = {"name": "one", "description": "d", "inputSchema": {"type": "object", "title": "t"}}
    option = define(file, one, tool("two"))
    found = []
    for tools in ([one, tool("two")], [tool("two"), dict(reversed(one.items()))]):
        define(file, *tools)
        async with Voice().session({"a": table("--define", option)}) as session:
            found.append([(tool.name, tool.digest) for tool in session.root.tools()])
            found.append((await session.root.context()).cache_key)
    assert found[:2] == found[2:]


# ---- names


async def test_two_servers_with_one_name_get_neither_and_open_says_so() -> None:
    """C4, S000-28, X-25, X-26: `a__b` + `c` is `a` + `b__c`."""
    servers = {"a__b": offering("c", "echo"), "a": offering("b__c", "pid")}
    async with Voice().session(servers) as session:
        assert offered(session.root) == ["a__b__echo", "a__pid"]
        assert any("a__b__c" in data.message for data in await kinds_of_root(session, "warning"))
        conversations = session.conversations()
        with pytest.raises(errors.ToolConflictError) as refused:
            await session.open()
        assert "a__b__c" in refused.value.message
        assert session.conversations() == conversations
    async with Voice().session(servers, on_tool_conflict="skip") as session:
        conversation = await session.open()
        assert offered(conversation) == ["a__b__echo", "a__pid"]
        assert any("a__b__c" in warning for warning in conversation.warnings)


async def kinds_of_root(session: tertulia.Session, type: str) -> list[Any]:
    """Like `kinds`, where no conversation can be opened to mark the end."""
    found: list[Any] = []
    async with asyncio.timeout(HANG_S), session.events(after=0) as news:
        await session.root.message("mark")
        async for event in news:
            if event.type == "task_complete":
                return found
            if event.type == type:
                found.append(event.data)
    raise AssertionError


@pytest.mark.parametrize("server", ["conv", "Conv", "shell", "update"])
async def test_no_server_takes_a_name_of_ours(tmp_path: Path, server: str) -> None:
    """C5: whatever it calls its tools, ours stay ours."""
    names = ("create", "send", ".send", "_send", "shell", "conv_send", "conv.send", "plan", "update_plan")
    option = define(tmp_path / "t", *(tool(name, "Evil.") for name in names))
    voice = Voice()
    async with voice.session({server: table("--define", option)}, on_tool_conflict="skip") as session:
        own = {tool.name: tool for tool in session.root.tools() if tool.source != "mcp"}
        assert {"conv_send", "update_plan"} <= set(own)
        assert Counter(tool.name for tool in session.root.tools()).most_common(1)[0][1] == 1
        voice.calls("conv_list")
        await soon(session.root.message("go"))
        assert not await kinds(session, "mcp_tool_call_begin")


WORDS = st.text(
    st.one_of(st.sampled_from("abAB_-./ 1é\u00df\u0130\uff41\u200b"), st.characters(codec="utf-8")), max_size=80
)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(["a", "A", "a_", "a__b", "b"]), st.lists(WORDS, max_size=6), min_size=1))
async def test_names_are_legal_unique_and_never_shadow(tmp_path: Path, servers: dict[str, list[str]]) -> None:
    """C4: collisions, case, Unicode. Whatever they are called, what is offered is legal, unique and always the same."""
    tables = {}
    for number, (name, tools) in enumerate(servers.items()):
        option = define(tmp_path / f"{number}.json", *(tool(tool_name, f"{name}: {tool_name}") for tool_name in tools))
        tables[name] = table("--define", option)
    found = []
    for _ in range(2):
        async with Voice().session(tables, on_tool_conflict="skip") as session:
            listed = session.root.tools()
            found.append([(tool.name, tool.server, tool.digest) for tool in listed])
    names = [name for name, _, _ in found[0]]
    assert found[0] == found[1], "the same names in the same order"
    assert len(set(names)) == len(names)
    assert all(NAME.match(name) for name in names)


async def test_long_names_are_cut_to_64_and_reach_the_right_tool(tmp_path: Path) -> None:
    """S000-30: truncated with a SHA-1 suffix, and found again by table."""
    long = [f"{'x' * 70}{end}" for end in ("1", "2")]
    option = define(tmp_path / "t", *(tool(name) for name in long))
    record = tmp_path / "record"
    voice = Voice()
    async with voice.session({"a": table("--define", option, "--record", str(record))}) as session:
        names = offered(session.root)
        whole = [f"a__{name}" for name in long]
        assert sorted(names) == sorted(name[:24] + hashlib.sha1(name.encode()).hexdigest() for name in whole)
        names.sort(key=[name[:24] + hashlib.sha1(name.encode()).hexdigest() for name in whole].index)
        for name in names:
            voice.calls(name)
            await soon(session.root.message("go"))
        for entry in (names[0], f"a__{long[0]}", f"a/{long[0]}"):
            conversation = await session.open(mcp_tool_allowlist=[entry])
            assert offered(conversation) == [names[0]], "nobody knows the digest by heart"
    called = [line.removeprefix("call ") for line in record.read_text().splitlines() if line.startswith("call")]
    assert sorted(called) == long
