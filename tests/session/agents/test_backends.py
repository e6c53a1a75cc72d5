"""Conversations that an ACP agent works for, in a whole session: one that is a program of ours."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.testing import call
from tests.deadlines import HANG_S
from tests.executors.acp_stage import acp_stage, agent_memory, answer_of, received
from tests.executors.agents import until
from tests.session.agents_stage import EMPLOYEE
from tests.session.staging import Stage, ticks

HISTORY = "Conversation History"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    home = tmp_path / "agent-home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes.txt").write_text("one\ntwo\nthree\n")
    return tmp_path / "work"


def warnings(acting: Stage, code: str) -> list[str]:
    return [e.data.message for e in acting.events.drain() if e.type == "warning" and e.data.code == code]


def kinds(acting: Stage) -> list[str]:
    return [event.type for event in acting.events.drain()]


def _lines(home: Path) -> list[dict[str, Any]]:
    """All that the agent heard, in whatever life."""
    return [json.loads(line) for line in (home / "received").read_text().splitlines()]


def _received(home: Path) -> list[str]:
    return [line["method"] for line in _lines(home) if "method" in line] if (home / "received").exists() else []


def _commands() -> list[str]:
    lines: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            lines.append(path.read_text(errors="replace"))
    return lines


def _pids(home: Path) -> set[int]:
    return {line["pid"] for line in _lines(home)}


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def kill_agent(acting: Stage, pid: int) -> None:
    """Kill an idle agent, and wait until our side has seen the end of its output, which may come after its death."""
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not runs(pid))
    resources = acting.parts.command_services.resources._all
    agents = [agent for resource in resources for agent in getattr(resource, "_idle_agents", {}).values()]
    assert agents
    await until(lambda: not any(agent.process.is_alive for agent in agents))


# ── continuity ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_three_follow_ups_are_one_session_of_one_long_lived_process() -> None:
    """Issue 11, 4; S003-20, X-58: the bare message each time, and each earlier one exactly once."""
    async with acp_stage() as acting:
        conversation = await acting.session.open(backend="acp:fake")
        pids = set[int]()
        for number in range(1, 5):
            answer = await agent_memory(conversation, f"question {number}")
            assert answer["heard"] == [f"question {at}" for at in range(1, number + 1)]
            pids.add(answer["pid"])
        assert [entry.role for entry in await conversation.history()] == ["user", "assistant"] * 4
        other = await acting.session.open(backend="acp:fake")
        assert (await agent_memory(other, "hello"))["pid"] not in pids
        (pid,) = pids
        assert runs(pid)
        await conversation.close()
        assert not runs(pid)


async def test_killed_it_is_started_again_and_told_the_transcript(work: Path) -> None:
    """Issue 11, 4: restart after a crash, with an event; each earlier message exactly once."""
    async with acp_stage() as acting:
        conversation = await acting.session.open(backend="acp:fake")
        first = await agent_memory(conversation, "question 1")
        await kill_agent(acting, first["pid"])
        answer = await agent_memory(conversation, "question 2")
        assert answer["pid"] != first["pid"]
        (prompt,) = answer["heard"]
        assert prompt.count("User: question 1") == 1
        (warning,) = warnings(acting, "resume_failed")
        assert "cannot go on with an earlier session" in warning
        assert (await agent_memory(conversation, "question 3"))["heard"] == [prompt, "question 3"]


async def test_one_that_keeps_its_conversations_takes_its_session_up_again(home: Path) -> None:
    """Issue 11, 4: session/load where it is offered; what it repeats of the past is told to nobody."""
    async with acp_stage("load") as acting:
        conversation = await acting.session.open(backend="acp:fake")
        first = await agent_memory(conversation, "question 1")
        await kill_agent(acting, first["pid"])
        answer = await agent_memory(conversation, "question 2")
        assert answer["heard"] == ["question 1", "question 2"]
        assert answer["pid"] != first["pid"]
        assert not warnings(acting, "resume_failed")
        (loaded,) = received(home, "session/load")
        assert len(loaded["mcpServers"]) == 1
        assert len(await conversation.history()) == 4


async def test_where_it_has_forgotten_it_is_told_the_transcript(home: Path) -> None:
    """X-58: a failed resume falls back."""
    async with acp_stage("load") as acting:
        conversation = await acting.session.open(backend="acp:fake")
        first = await agent_memory(conversation, "question 1")
        for path in home.glob("*-*"):
            path.unlink()
        await kill_agent(acting, first["pid"])
        (prompt,) = (await agent_memory(conversation, "question 2"))["heard"]
        assert HISTORY in prompt
        assert warnings(acting, "resume_failed")


async def test_what_makes_the_history_another_begins_a_new_session_with_the_transcript(home: Path) -> None:
    """DESIGN, native ids: set_context makes the id stale; the process stays."""
    async with acp_stage() as acting:
        conversation = await acting.session.open(backend="acp:fake")
        first = await agent_memory(conversation, "question 1")
        await conversation.set_context(title="other")
        answer = await agent_memory(conversation, "question 2")
        assert answer["pid"] == first["pid"]
        (prompt,) = answer["heard"]
        assert "User: question 1" in prompt
        assert len(received(home, "session/new")) == 2


async def test_under_a_stricter_storage_policy_it_leaves_nothing(home: Path) -> None:
    """Issue 11, 2: a temporary HOME and the transcript; nothing of it stays, the process neither."""
    async with acp_stage("load") as acting:
        conversation = await acting.session.open(backend="acp:fake", storage_policy="headers_only")
        first = await agent_memory(conversation, "question 1")
        assert not runs(first["pid"])
        (prompt,) = (await agent_memory(conversation, "question 2"))["heard"]
        assert "User: question 1" in prompt
        assert list(home.iterdir()) == []


# ── what it is told ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_it_should_know_is_told_before_its_first_prompt_and_again_when_it_changes() -> None:
    """X-50, X-63, S001-37: no other way is known for this agent."""
    async with acp_stage() as acting:
        conversation = await acting.session.open(backend="acp:fake", base_instructions="Be brief.")
        assert (await agent_memory(conversation, "one"))["heard"] == ["Be brief.\n\none"]
        assert (await agent_memory(conversation, "two"))["heard"] == ["Be brief.\n\none", "two"]
        *_, newest = (await agent_memory(conversation, "three", output_schema={"type": "object"}))["heard"]
        assert newest.startswith("Be brief.\n\nThe whole answer must be one JSON value")
        assert newest.endswith("\n\nthree")


async def test_instructions_of_one_task_are_in_no_memory_of_another() -> None:
    """Issue 17, item 15: what stood before a prompt an agent remembers, so each begins with a talk of its own."""
    async with acp_stage() as acting:
        conversation = await acting.session.open(backend="acp:fake")
        pid = (await agent_memory(conversation, "one"))["pid"]
        (prompt,) = (await agent_memory(conversation, "two", base_instructions_override="In verse."))["heard"]
        assert prompt.startswith("In verse.\n\n## Conversation History")
        answer = await agent_memory(conversation, "three")
        (prompt,) = answer["heard"]
        assert prompt.startswith("## Conversation History")
        assert answer["pid"] == pid, "the program is the same"
        assert len((await agent_memory(conversation, "four"))["heard"]) == 2


async def test_one_that_reads_meta_is_told_there(home: Path) -> None:
    """X-50: whichever way the agent really reads; with other members of its `_meta`, and never twice."""
    table = {"meta": {"systemPrompt": {"append": "{text}"}, "other": 1}}
    async with acp_stage(table=table) as acting:
        conversation = await acting.session.open(backend="acp:fake", base_instructions="Be brief.")
        assert (await agent_memory(conversation, "one"))["heard"] == ["one"]
        bare = await acting.session.open(backend="acp:fake")
        await agent_memory(bare, "one")
    metas = [params["_meta"] for params in received(home, "session/new")]
    assert metas == [{"systemPrompt": {"append": "Be brief."}, "other": 1}, {"other": 1}]


async def test_an_agent_gets_its_additions_its_token_and_one_server(home: Path) -> None:
    """S001-37, S001-44, X-50: really received, by a fake that writes it down; revoked with the conversation."""
    async with acp_stage() as acting:
        conversation = await acting.session.open(backend="acp:fake", agent=EMPLOYEE)
        await agent_memory(conversation, "hello")
        (prompt,) = received(home, "session/prompt")
        assert "ada" in prompt["prompt"][0]["text"]
        ((server,),) = [params["mcpServers"] for params in received(home, "session/new")]
        variables = {entry["name"]: entry["value"] for entry in server["env"]}
        token = acting.parts.agent_registry.token(conversation.id)
        assert token is not None
        assert variables["TERTULIA_TOKEN"] == token
        assert server["name"] == "tertulia"
        answer = json.loads(
            await answer_of(conversation, 'call {"name": "canvas_update", "arguments": {"html": "<p>"}}')
        )
        assert "canvas_update" in answer["tools"]
        assert answer["answer"]["isError"] is False
        await conversation.close()
        assert acting.parts.agent_registry.token(conversation.id) is None


async def test_its_one_server_looks_but_delegates_nothing() -> None:
    """DESIGN: foreign backends are targets only; conv_list works, conv_create is refused; in every task."""
    async with acp_stage() as acting:
        conversation = await acting.session.open(backend="acp:fake")
        for _ in range(2):
            answer = json.loads(await answer_of(conversation, 'call {"name": "conv_list", "arguments": {}}'))
            assert answer["tools"] == ["conv_list", "conv_history"]
            assert conversation.id in answer["answer"]["content"][0]["text"]
        answer = json.loads(await answer_of(conversation, 'call {"name": "conv_create", "arguments": {"input": "x"}}'))
        assert "unsupported_by_backend" in json.dumps(answer["answer"])
        assert len(acting.session.conversations()) == 2


# ── what it does ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_it_reports_is_told_in_our_events() -> None:
    """Issue 11, 4: thoughts, calls with their diffs, plans; what we have no word for is kept."""
    async with acp_stage() as acting:
        conversation = await acting.session.open(backend="acp:fake")
        reply = await conversation.message("tools")
        assert (reply.status, reply.text) == ("completed", "done")
        assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.tool_calls) == (10, 5, 2)
        events = [event.data for event in acting.events.drain() if event.conversation_id == conversation.id]
        by_kind = {data.type: data for data in events}
        assert by_kind["agent_reasoning"].text == "hm"
        assert by_kind["exec_command_begin"].command == ["ls", "-l"]
        assert (by_kind["exec_command_end"].exit_code, by_kind["exec_command_end"].output) == (0, "a\nb")
        assert by_kind["patch_apply_begin"].changes == [{"kind": "update", "path": "/x/a.txt"}]
        assert "-one" in by_kind["patch_apply_end"].message
        assert by_kind["plan_update"].plan[0].step == "first"
        assert by_kind["foreign_event"].raw["value"] == 1


async def test_a_crash_fails_the_task_and_says_what_it_said_last() -> None:
    """HARDENING C9, C11: what was half said is kept, every call has its end, 600 kB of stderr hold up nobody."""
    async with acp_stage() as acting:
        conversation = await acting.session.open(backend="acp:fake")
        reply = await conversation.message("crash")
        assert (reply.status, reply.text) == ("failed", "half of an ans")
        assert reply.error is not None
        assert "exited with code 7" in reply.error.message
        assert "it hurts" in reply.error.message
        assert kinds(acting).count("tool_call_end") == 1
        (prompt,) = (await agent_memory(conversation, "again"))["heard"]
        assert "Assistant: half of an ans" in prompt


@pytest.mark.parametrize("order", ["hang", "hang_hard"])
async def test_cancelled_it_stops_or_is_killed_with_all_that_it_started(order: str, tmp_path: Path) -> None:
    """Issue 11, 4; HARDENING I6, C11: session/cancel, grace, kill. One that stops stays for the next task."""
    async with acp_stage() as acting:
        conversation = await acting.session.open(backend="acp:fake")
        mark = tmp_path / "mark"
        task = acting.begin(conversation.message(f"{order} {mark}"))
        await until(mark.exists)
        await until(mark.read_text)
        pid = int(mark.read_text())
        if order == "hang":
            await acting.until("tool_call_begin")
        await conversation.interrupt()
        assert (await task).status == "interrupted"
        answer = await agent_memory(conversation, "again")
        await until(lambda: runs(pid) == (order == "hang"))
        assert (answer["pid"] == pid) == (order == "hang")
        ends = [event.data for event in acting.events.drain() if event.type == "tool_call_end"]
        assert [end.output for end in ends] == ["interrupted"] * (order == "hang")


@pytest.mark.parametrize("order", ["quiet", "hang_hard"])
async def test_stopped_before_its_first_word_it_remembers_or_an_event_says_that_it_does_not(
    order: str, tmp_path: Path
) -> None:
    """Issue 25, 5: an agent that confirms that it stopped keeps its own session; for one that was killed, who knows."""
    confirms = order == "quiet"
    async with acp_stage() as acting:
        conversation = await acting.session.open(backend="acp:fake")
        assert (await agent_memory(conversation, "one"))["heard"] == ["one"]
        mark = tmp_path / "mark"
        task = acting.begin(conversation.message(f"{order} {mark}"))
        await until(lambda: mark.exists() and mark.read_text())
        await conversation.interrupt()
        assert (await task).status == "interrupted"
        assert len(warnings(acting, "resume_failed")) == (not confirms)
        heard = (await agent_memory(conversation, "again"))["heard"]
        if confirms:
            assert heard == ["one", f"quiet {mark}", "again"]
        else:
            (prompt,) = heard
            assert HISTORY in prompt
            assert f"User: hang_hard {mark}" in prompt
        assert len(warnings(acting, "resume_failed")) == (not confirms)


@pytest.mark.parametrize("order", ["stubborn", "hang_hard"])
async def test_one_that_does_not_want_to_stop_is_gone_before_the_task_is_over(order: str, tmp_path: Path) -> None:
    """S003-30, HARDENING I6: killed in time, so that its task ends in order and nobody is left to himself."""
    async with acp_stage() as acting:
        conversation = await acting.session.open(backend="acp:fake")
        mark = tmp_path / "mark"
        task = acting.begin(conversation.message(f"{order} {mark}"))
        await until(lambda: mark.exists() and mark.read_text())
        if order == "stubborn":
            await acting.until("tool_call_begin")
        await conversation.interrupt()
        assert (await task).status == "interrupted"
        assert not runs(int(mark.read_text()))
        assert warnings(acting, "abandoned") == []
        last = [kind for kind in kinds(acting) if kind in ("tool_call_end", "turn_aborted")]
        assert last == ["tool_call_end"] * (order == "stubborn") + ["turn_aborted"]
        assert (await agent_memory(conversation, "again"))["servers"] == 1


@pytest.mark.parametrize("method", ["initialize", "session/new", "session/set_mode", "session/prompt", "session/load"])
async def test_stopped_at_any_stage_its_task_ends_and_nothing_is_left(method: str, home: Path, tmp_path: Path) -> None:
    """S003-30, HARDENING C11, I6: while it starts, begins or takes up a session, is set to a mode, or works."""
    table = {"sandbox": {"workspace-write": {"mode": "careful"}}}
    mode = "load" if method == "session/load" else method
    async with acp_stage(mode, table=table) as acting:
        conversation = await acting.session.open(backend="acp:fake")
        if method == "session/load":
            pid = (await agent_memory(conversation, "one"))["pid"]
            os.kill(pid, signal.SIGKILL)
            await until(lambda: not runs(pid))
            (stored,) = (path for path in home.iterdir() if path.name != "received")
            stored.unlink()
            os.mkfifo(stored)
        before = len(_received(home))
        task = acting.begin(conversation.message("two"))
        await until(lambda: method in _received(home)[before:])
        await conversation.interrupt()
        assert (await task).status == "interrupted"
        assert warnings(acting, "abandoned") == []
        assert not any(runs(pid) for pid in _pids(home))
        acting.check_idle()


@pytest.mark.parametrize("policy", ["untrusted", "never"])
async def test_what_it_asked_for_and_did_not_wait_for_ends_with_its_task(work: Path, home: Path, policy: str) -> None:
    """HARDENING I6, C11: a command that would start when the task is over does not; nobody is asked any more."""
    late = work / "late.txt"
    left = {
        "terminal/create": {"command": "sh", "args": ["-c", f"sleep 1000; echo x > {late}"]},
        "session/request_permission": {"toolCall": {"kind": "execute", "title": "x"}, "options": []},
    }
    async with acp_stage(cwd=str(work), approval_policy=policy) as acting:
        conversation = await acting.session.open(backend="acp:fake")
        for method, params in left.items():
            assert (await conversation.message(f"leave {method} {json.dumps(params)}")).status == "completed"
            assert await acting.session.approvals.pending() == []
        await agent_memory(conversation, "again")
        answers = [line for line in _lines(home) if line.get("id") == "left"]
        assert len(answers) == len(left)
        assert not any("late.txt" in line for line in _commands())
    assert not late.exists()


async def test_another_backend_is_given_the_conversation_and_the_first_agent_leaves() -> None:
    """Issue 11, 4: a program that waits for nothing is ended, and not only when the conversation closes."""
    async with acp_stage("good") as acting:
        conversation = await acting.session.open(backend="acp:fake")
        pid = (await agent_memory(conversation, "one"))["pid"]
        await conversation.set_context(title="the same agent")
        assert runs(pid)
        await conversation.set_context(backend="native")
        assert not runs(pid)
        await conversation.set_context(backend="acp:fake")
        answer = await agent_memory(conversation, "two")
        assert answer["pid"] != pid
        assert "User: one" in answer["heard"][0]


async def test_given_away_in_the_middle_of_a_task_it_leaves_afterwards(tmp_path: Path) -> None:
    """Issue 11, 4: the task that runs is still its own."""
    async with acp_stage() as acting:
        conversation = await acting.session.open(backend="acp:fake")
        mark = tmp_path / "mark"
        task = acting.begin(conversation.message(f"hang {mark}"))
        await until(lambda: mark.exists() and mark.read_text())
        await conversation.set_context(backend="native")
        assert runs(int(mark.read_text()))
        await conversation.interrupt()
        assert (await task).status == "interrupted"
        assert not runs(int(mark.read_text()))
        assert warnings(acting, "abandoned") == []


async def test_a_conversation_that_is_closed_at_once_takes_its_agent_along(tmp_path: Path) -> None:
    """HARDENING C11: also where nobody waits for it to stop; it does not come back to a place that is gone."""
    async with acp_stage() as acting:
        conversation = await acting.session.open(backend="acp:fake")
        mark = tmp_path / "mark"
        task = acting.begin(conversation.message(f"hang {mark}"))
        await until(lambda: mark.exists() and mark.read_text())
        await conversation.close(timeout=0)
        assert (await task).status == "interrupted"
        await until(lambda: not runs(int(mark.read_text())))


async def test_a_flood_loses_nothing_and_a_line_without_end_is_not_waited_for() -> None:
    """HARDENING C10: bounded lines; issue 11, bad input."""
    async with acp_stage() as acting:
        conversation = await acting.session.open(backend="acp:fake")
        assert (await answer_of(conversation, "flood 5000")).split() == [str(number) for number in range(5000)]
        reply = await conversation.message("long")
        assert reply.error is not None
        assert (reply.status, reply.error.code) == ("failed", "limit")
        assert "line of" in reply.error.message
        assert (await agent_memory(conversation, "again"))["servers"] == 1


async def test_one_that_stammers_is_understood_as_far_as_it_makes_sense() -> None:
    """Issue 11, bad input: what is no message, or a message of nobody, ends neither the task nor the connection."""
    async with acp_stage() as acting:
        conversation = await acting.session.open(backend="acp:fake")
        pid = (await agent_memory(conversation, "hello"))["pid"]
        assert await answer_of(conversation, "noise") == "still here"
        answer = await agent_memory(conversation, "again")
        assert (answer["pid"], len(answer["heard"])) == (pid, 3)
        assert warnings(acting, "resume_failed") == []


async def test_daemons_that_it_leaves_go_with_it() -> None:
    """Issue 11, bad input: leaves daemons."""
    async with acp_stage() as acting:
        conversation = await acting.session.open(backend="acp:fake")
        pid = int(await answer_of(conversation, "daemon"))
        assert runs(pid)
        await conversation.close()
        assert not runs(pid)


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("old", "version 99 of ACP"),
        ("exits", "exited with code 3: one / no way"),
        ("html", "3 lines of its output made no sense"),
        ("auth", "log in with `fake login`"),
    ],
)
async def test_one_that_does_not_start_says_why(mode: str, words: str) -> None:
    """Issue 11, bad input; HARDENING C11: each time anew, and nothing is left."""
    async with acp_stage(mode, table={"login": "fake login"}) as acting:
        conversation = await acting.session.open(backend="acp:fake")
        for _ in range(2):
            reply = await conversation.message("hello")
            assert reply.status == "failed"
            assert reply.error is not None
            assert words in reply.error.message


async def test_a_program_that_is_missing_is_named_with_the_way_to_get_it() -> None:
    """Issue 11, bad input."""
    table = {"command": ["no-such-agent"], "install": "npm install -g no-such-agent"}
    async with acp_stage(table=table) as acting:
        conversation = await acting.session.open(backend="acp:fake")
        reply = await conversation.message("hello")
        assert reply.error is not None
        assert reply.error.message == (
            "acp:fake is not installed: there is no `no-such-agent` in PATH; install it with "
            "`npm install -g no-such-agent`"
        )


async def test_a_backend_that_is_not_there_is_refused_at_open() -> None:
    """DESIGN, executors: unknown backend: refused at open."""
    async with acp_stage() as acting:
        before = len(acting.session.conversations())
        with pytest.raises(InvalidParamsError, match="acp:fake"):
            await acting.session.open(backend="acp:fak")
        assert len(acting.session.conversations()) == before


@pytest.mark.parametrize("reason", ["max_tokens", "refusal", "cancelled", "nonsense"])
async def test_a_task_that_ended_otherwise_is_not_completed(reason: str) -> None:
    """Issue 11, 4: every stop reason has an ending."""
    async with acp_stage() as acting:
        conversation = await acting.session.open(backend="acp:fake")
        status = "interrupted" if reason == "cancelled" else "failed"
        assert (await conversation.message(f"stop {reason}")).status == status
        assert (await agent_memory(conversation, "again"))["heard"][-1].endswith("again")


# ── asked by other conversations ─────────────────────────────────────────────────────────────────────────────────


async def test_conversation_tools_reach_it_and_it_stays_for_the_next_question() -> None:
    """Issue 11, 5; S004-04, S004-06, S004-11, S004-25: created, asked again in the same session, destroyed."""
    sent: list[str] = []

    def again(name: str, **more: Any) -> Callable[[Any], Any]:
        return lambda _: call(name, {"conversation_id": sent[0], **more})

    create = call("conv_create", {"user_instruction": "look", "backend": "acp:fake"})
    async with acp_stage(
        replies=[create, "one", again("conv_send", text="and"), "two", again("conv_destroy"), "3"]
    ) as on:
        assert (await on.root.message("ask it")).text == "one"
        (child,) = [conversation for conversation in on.parts.conversations if conversation.terms.backend == "acp:fake"]
        other = on.session.conversation(child.id)
        sent.append(child.id)
        assert on.story(on.root, other) == [
            *("a started user", "a begin call_1", "a replaced", "b started target", "b completed"),
            *("a started continuation", "a end call_1", "a completed"),
        ]
        await on.root.message("ask it again")
        first, second = (json.loads(json.loads(o.text)["last_assistant_message"]) for o in on.outputs(on.root))
        assert (second["pid"], second["heard"]) == (first["pid"], ["look", "and"])
        assert runs(first["pid"])
        await on.root.message("let it go")
        assert json.loads(on.outputs(on.root)[-1].text)["ok"]
        assert not runs(first["pid"])


@pytest.mark.parametrize(("mode", "code"), [("exits", "model_error"), ("auth", "model_error")])
async def test_one_that_cannot_start_is_an_answer_to_whoever_asked(mode: str, code: str) -> None:
    """S004-18: each call gets exactly one output, in failure too."""
    create = call("conv_create", {"user_instruction": "look", "backend": "acp:fake"})
    async with acp_stage(mode, replies=[create, "too bad"]) as on:
        assert (await on.root.message("ask it")).text == "too bad"
        (output,) = on.outputs(on.root)
        assert not output.success
        assert json.loads(output.text)["code"] == code


@pytest.mark.parametrize("backend", ["acp:fakes", "acp:", "acp"])
async def test_one_that_is_not_there_is_refused_before_anything_happens(backend: str) -> None:
    """S004-32: every validation precedes every side effect."""
    create = call("conv_create", {"user_instruction": "look", "backend": backend})
    async with acp_stage(replies=[create, "too bad"]) as on:
        before = len(on.session.conversations())
        assert (await on.root.message("ask it")).text == "too bad"
        (output,) = on.outputs(on.root)
        assert (output.success, json.loads(output.text)["code"]) == (False, "invalid_params")
        assert len(on.session.conversations()) == before
        assert "turn_aborted" not in kinds(on)


async def test_stopping_whoever_asked_stops_it_too(tmp_path: Path) -> None:
    """S004-11, S004-18, HARDENING I6: the whole chain; the call is answered once."""
    mark = tmp_path / "mark"
    create = call("conv_create", {"user_instruction": f"stubborn {mark}", "backend": "acp:fake"})
    async with acp_stage(replies=[create]) as on:
        task = on.begin(on.root.message("ask it"))
        await until(lambda: mark.exists() and mark.read_text())
        await on.root.interrupt()
        assert (await task).status == "interrupted"
        assert not runs(int(mark.read_text()))
        assert warnings(on, "abandoned") == []
        assert [output.success for output in on.outputs(on.root)] == [False]


async def test_notes_that_are_asked_for_while_it_works_are_written_afterwards(tmp_path: Path) -> None:
    """Issue 11, 2: `conversation/compact` waits for the task; then the agent is told the notes, in a new session."""
    async with acp_stage(replies=["notes of it"]) as on:
        conversation = await on.session.open(backend="acp:fake")
        await agent_memory(conversation, "one")
        await agent_memory(conversation, "two")
        mark = tmp_path / "mark"
        task = on.begin(conversation.message(f"hang {mark}"))
        await until(lambda: mark.exists() and mark.read_text())
        compacting = on.begin(conversation.compact())
        await ticks()
        assert not compacting.done()
        assert "history_compacted" not in kinds(on)
        await conversation.interrupt()
        assert (await task).status == "interrupted"
        assert (await compacting).compacted
        (prompt,) = (await agent_memory(conversation, "three"))["heard"]
        assert "notes of it" in prompt
        assert "User: one" not in prompt
        (warning,) = warnings(on, "resume_failed")
        assert "rewritten" in warning


# ── what it may do ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("decision", "option"), [("allow", "y"), ("deny", "n")])
async def test_what_it_asks_is_asked_of_our_approver(decision: Any, option: str) -> None:
    """Issue 11, 4: an approval answered yes and no. A command outside of its sandbox is an escalation."""
    async with acp_stage() as acting, acting.session.events(attend=True):
        conversation = await acting.session.open(backend="acp:fake")
        task = acting.begin(conversation.message("ask execute"))
        request = (await acting.until("approval_request")).data
        assert (request.kind, request.conversation_id) == ("escalation", conversation.id)
        assert request.title == "acp:fake: execute it"
        await acting.session.approvals.resolve(request.approval_id, decision)
        assert (await task).text == option


async def test_a_change_is_shown_whole_and_a_yes_holds_for_that_one_alone(work: Path) -> None:
    """A1: neither the diff nor the `call_id` of the call was there, and another diff ran by the same grant."""
    async with acp_stage(approval_policy="untrusted", cwd=str(work)) as acting, acting.session.events(attend=True):
        conversation = await acting.session.open(backend="acp:fake")
        for new in ("first", "second"):
            task = acting.begin(conversation.message(f"change {work}/a.txt {new}"))
            request = (await acting.until("approval_request")).data
            assert [line for line in request.detail.splitlines() if line[2:3] in "+-"] == [
                f"│ --- {work}/a.txt", f"│ +++ {work}/a.txt", "│ -old", f"│ +{new}",
            ]  # fmt: skip
            await acting.session.approvals.resolve(request.approval_id, "allow", scope="session")
            assert (await task).text == "selected"
            begun = [event.data.call_id for event in acting.events.drain() if event.type == "tool_call_begin"]
            assert begun[-1] == request.call_id
        assert await answer_of(conversation, f"change {work}/a.txt first") == "selected"
        assert kinds(acting).count("approval_request") == 2


async def test_a_task_that_is_stopped_asks_no_longer_and_its_agent_stays() -> None:
    """HARDENING I6; ACP: what was asked is answered as cancelled, and nobody is left waiting."""
    async with acp_stage() as acting, acting.session.events(attend=True):
        conversation = await acting.session.open(backend="acp:fake")
        before = await agent_memory(conversation, "hello")
        task = acting.begin(conversation.message("ask execute"))
        await acting.until("approval_request")
        await conversation.interrupt()
        assert (await task).status == "interrupted"
        assert await acting.session.approvals.pending() == []
        assert kinds(acting).count("approval_resolved") == 1
        assert (await agent_memory(conversation, "again"))["pid"] == before["pid"]


async def test_where_nobody_may_be_asked_it_is_denied() -> None:
    """DESIGN: strictest wins; nobody there is a no. What only looks is never asked about."""
    async with acp_stage(approval_policy="never") as acting:
        conversation = await acting.session.open(backend="acp:fake")
        assert await answer_of(conversation, "ask execute") == "n"
        assert await answer_of(conversation, "ask other") == "n"
        assert await answer_of(conversation, "ask read") == "y"
        assert "approval_request" not in kinds(acting)


async def test_a_change_within_what_may_be_written_is_a_patch_like_any_other(work: Path) -> None:
    """DESIGN: strictest wins. Inside the roots it runs by policy; outside, protected or read-only it is asked about."""
    async with acp_stage(approval_policy="never", cwd=str(work)) as acting:
        conversation = await acting.session.open(backend="acp:fake")
        assert await answer_of(conversation, f"ask edit {work}/new.txt") == "y"
        assert await answer_of(conversation, "ask edit new.txt") == "y"
        assert await answer_of(conversation, f"ask edit {work}/.git/config") == "n"
        assert await answer_of(conversation, f"ask edit {work}/../other") == "n"
        assert await answer_of(conversation, "ask edit") == "n"
        bounded = await acting.session.open(backend="acp:fake", sandbox="read_only")
        assert await answer_of(bounded, f"ask edit {work}/new.txt") == "n"


async def test_without_a_sandbox_commands_run_by_the_policy() -> None:
    """DESIGN: under danger-full-access there is nothing to leave."""
    async with acp_stage(approval_policy="never", sandbox="danger-full-access") as acting:
        conversation = await acting.session.open(backend="acp:fake")
        assert await answer_of(conversation, "ask execute") == "y"
        assert await answer_of(conversation, "ask delete /anywhere") == "y"
        assert await answer_of(conversation, "ask fetch") == "n"


async def test_files_are_read_and_written_in_our_sandbox(work: Path, tmp_path: Path) -> None:
    """Issue 11, 4: fs requests, as apply_patch would; what may not be written is not."""
    async with acp_stage(cwd=str(work)) as acting:
        conversation = await acting.session.open(backend="acp:fake")
        assert json.loads(await answer_of(conversation, f"read {work}/notes.txt")) == {"content": "one\ntwo\nthree\n"}
        assert json.loads(await answer_of(conversation, f"read {work}/none.txt"))["code"] == -32002
        assert json.loads(await answer_of(conversation, f"write {work}/a/b.txt hello")) == {}
        assert (work / "a" / "b.txt").read_text() == "hello"
        assert json.loads(await answer_of(conversation, f"write {work}/a/b.txt again")) == {}
        assert (work / "a" / "b.txt").read_text() == "again"
        for path in (tmp_path / "outside.txt", work / ".git" / "config"):
            assert "code" in json.loads(await answer_of(conversation, f"write {path} x"))
            assert not path.exists()
        assert "code" in json.loads(await answer_of(conversation, "read relative.txt"))
        ends = [event.data.success for event in acting.events.drain() if event.type == "patch_apply_end"]
        assert ends == [True, True, False, False]


async def test_files_are_not_written_where_reading_is_all_that_is_allowed(work: Path) -> None:
    """DESIGN, narrowing: read_only."""
    async with acp_stage(cwd=str(work), sandbox="read-only") as acting:
        conversation = await acting.session.open(backend="acp:fake")
        assert "content" in json.loads(await answer_of(conversation, f"read {work}/notes.txt"))
        assert "code" in json.loads(await answer_of(conversation, f"write {work}/new.txt x"))
        assert not (work / "new.txt").exists()


async def test_terminals_run_in_our_sandbox_and_end_with_the_task(work: Path, tmp_path: Path) -> None:
    """Issue 11, 4: terminal requests; a command that may not write does not, and none outlives its task."""
    async with acp_stage(cwd=str(work)) as acting:
        conversation = await acting.session.open(backend="acp:fake")
        ended, output, gone = json.loads(await answer_of(conversation, "run echo $SEEN; exit 3"))
        assert (ended, output, gone) == ({"exitCode": 3}, "yes\n", -32002)
        await answer_of(conversation, f"run touch {tmp_path}/outside")
        assert not (tmp_path / "outside").exists()
        assert await answer_of(conversation, "start") == "started"
        ends = [event.data for event in acting.events.drain() if event.type == "exec_command_end"]
        assert [end.exit_code for end in ends] == [3, ends[1].exit_code, 137]


async def test_terminals_are_asked_about_like_any_command() -> None:
    """DESIGN: untrusted, and nobody who could be asked: denied."""
    async with acp_stage(
        approval_policy={"auto_run": "trusted", "may_ask": False, "retry_outside_on_failure": False}
    ) as acting:
        conversation = await acting.session.open(backend="acp:fake")
        assert json.loads(await answer_of(conversation, "run touch x"))["code"] == -32603


async def test_one_that_cannot_be_held_to_its_rights_is_refused() -> None:
    """DESIGN, executors: refused where it has no sandbox of its own for ours."""
    async with acp_stage(table={"sandbox": {}}) as acting:
        conversation = await acting.session.open(backend="acp:fake")
        reply = await conversation.message("hello")
        assert reply.error is not None
        assert reply.error.code == "unsupported_by_backend"
        assert "sandbox mode workspace-write" in reply.error.message


async def test_its_own_mode_is_set_before_every_prompt(home: Path) -> None:
    """DESIGN, executors: started with what matches ours."""
    table = {"sandbox": {"workspace-write": {"mode": "careful", "meta": {"a": 1}}, "read-only": {"mode": "look"}}}
    async with acp_stage(table=table) as acting:
        conversation = await acting.session.open(backend="acp:fake")
        await agent_memory(conversation, "one")
        await agent_memory(conversation, "two")
        await conversation.set_context(sandbox="read_only")
        await agent_memory(conversation, "three")
    assert [params["modeId"] for params in received(home, "session/set_mode")] == ["careful", "careful", "look"]
    assert [params.get("_meta") for params in received(home, "session/new")] == [{"a": 1}, None]


async def test_closing_the_session_ends_an_agent_in_the_middle_of_a_task(tmp_path: Path) -> None:
    """HARDENING C11: nothing is left."""
    async with acp_stage() as acting:
        conversation = await acting.session.open(backend="acp:fake")
        mark = tmp_path / "mark"
        acting.begin(conversation.message(f"hang {mark}"))
        await until(lambda: mark.exists() and mark.read_text())
        await asyncio.wait_for(acting.session.close(), HANG_S)
        assert not runs(int(mark.read_text()))
