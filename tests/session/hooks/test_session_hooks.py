"""Hooks of a session: what their answers do to calls, tasks and approvals, and what a hook that fails does."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.testing import ScriptedModel, call, say
from tests.contract.python_session import becomes, sent_texts, soon
from tests.deadlines import HANG_S
from tests.tables import each_row

Question = dict[str, Any]
PROGRAM = """
import json, sys
question = json.load(sys.stdin)
open(sys.argv[1], "a").write(json.dumps(question) + "\\n")
print(sys.argv[2])
"""


@tertulia.tool
def double(number: int) -> int:
    """Twice the number."""
    CALLED.append(number)
    return 2 * number


CALLED: list[int] = []


@pytest.fixture(autouse=True)
def nothing_called() -> None:
    CALLED.clear()


def twice(number: int = 21) -> Any:
    return say("", call("double", {"number": number}))


def asking(function: Callable[[Question], Any], *on: str, **more: Any) -> dict[str, Any]:
    return {"hook": {"on": list(on), "function": function, **more}}


@asynccontextmanager
async def session_with(
    hooks: dict[str, Any], *replies: Any, **settings: Any
) -> AsyncGenerator[tuple[tertulia.Session, ScriptedModel]]:
    model = ScriptedModel(list(replies))
    tools = settings.pop("tools", [double])
    async with tertulia.Session.start(
        tertulia.Settings(model=model, tools=tools, hooks=hooks, close_timeout_s=60, **settings)
    ) as session:
        yield session, model


async def events_of(session: tertulia.Session, text: str = "go") -> list[Any]:
    return [event.data async for event in session.root.stream(text)]


def of(kind: type[Any], events: list[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


async def test_a_program_reads_the_call_and_refuses_it(tmp_path: Path) -> None:
    """The call does not run and has one output; the task goes on, and an event names the hook."""
    answer = json.dumps({"decision": "refuse", "reason": "not today"})
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "questions"), answer]
    hooks = {"guard": {"on": ["before_tool"], "command": command, "timeout_s": 60}}
    async with session_with(hooks, twice(), "then not") as (session, _):
        events = await soon(events_of(session))
        (questions,) = [json.loads(line) for line in (tmp_path / "questions").read_text().splitlines()]
        assert (questions["session_id"], questions["conversation_id"]) == (session.id, session.root.id)
    assert CALLED == []
    (end,) = of(tertulia.ToolCallEnd, events)
    assert json.loads(end.output) == {
        "ok": False,
        "code": "hook_refused",
        "reason": "the hook guard refuses this: not today",
    }
    (decision,) = of(tertulia.HookDecision, events)
    assert (decision.hook, decision.moment, decision.decision) == ("guard", "before_tool", "refuse")
    assert decision.call_id == end.call_id == questions["call_id"]
    assert {name: questions[name] for name in ("hook", "moment", "tool", "source", "arguments", "storage_policy")} == {
        "hook": "guard",
        "moment": "before_tool",
        "tool": "double",
        "source": "function",
        "arguments": {"number": 21},
        "storage_policy": "full",
    }
    assert of(tertulia.TaskComplete, events)[0].last_assistant_message == "then not"


async def test_texts_of_hooks_come_after_the_output_and_say_whose_they_are() -> None:
    def speak(question: Question) -> Question:
        return {"context": f"at {question['moment']}, {question.get('output')}"}

    async with session_with(asking(speak, "before_tool", "after_tool", "task_start"), twice(), "ok") as (
        session,
        model,
    ):
        await soon(session.root.message("go"))
    (output,) = [item for item in model.last_request.items if isinstance(item, tertulia.ToolOutput)]
    assert [part.text for part in output.parts if isinstance(part, tertulia.TextPart)] == [
        "42",
        '<hook_context hook="hook">\nat before_tool, None\n</hook_context>',
        '<hook_context hook="hook">\nat after_tool, 42\n</hook_context>',
    ]
    assert sent_texts(model, 0)[-2:] == ["go", '<hook_context hook="hook">\nat task_start, None\n</hook_context>']


async def test_a_withheld_output_is_never_read() -> None:
    hooks = asking(lambda question: {"decision": "refuse", "reason": "a secret"}, "after_tool")
    async with session_with(hooks, twice(), "ok") as (session, model):
        events = await soon(events_of(session))
    assert CALLED == [21]
    (end,) = of(tertulia.ToolCallEnd, events)
    assert (end.success, json.loads(end.output)["code"]) == (False, "hook_refused")
    assert not any("42" in text for text in sent_texts(model))


@each_row(
    "how, function, why",
    [
        ("it raises", lambda question: 1 / 0, "failed: ZeroDivisionError"),
        ("it leaves", lambda question: sys.exit(), "failed: InternalError"),
        ("no object", lambda question: ["refuse"], "must be a JSON object"),
        ("no JSON", lambda question: {"context": object()}, "is not JSON"),
        ("a wider answer", lambda question: {"decision": "allow"}, "must be continue or refuse"),
        ("too long", lambda question: {"context": "x" * 100_000}, "bytes"),
    ],
)
async def test_a_function_that_fails_counts_as_a_no_before_a_call(how: str, function: Any, why: str) -> None:
    async with session_with(asking(function, "before_tool"), twice(), "ok") as (session, _model):
        events = await soon(events_of(session))
    assert CALLED == []
    (end,), (decision,) = of(tertulia.ToolCallEnd, events), of(tertulia.HookDecision, events)
    assert json.loads(end.output)["code"] == "hook_failed"
    assert decision.failed
    assert decision.decision == "refuse"
    assert why in decision.reason
    assert of(tertulia.TaskComplete, events)[0].status == "completed"


@each_row(
    "command, why",
    [
        (["sh", "-c", "echo rubbish"], "not one JSON object"),
        (["sh", "-c", "echo '{}' ; echo '{}'"], "not one JSON object"),
        (["sh", "-c", "echo oh dear >&2; exit 3"], "ended with 3: oh dear"),
        (["sh", "-c", "head -c 100000 /dev/zero"], "printed 100,000 bytes"),
        (["sh", "-c", "sleep 1000 & sleep 1000"], "took longer than 0.3 s and was ended"),
        (["/nonexistent/program"], "could not be started: No such file"),
    ],
)
async def test_a_hostile_program_counts_as_a_no_before_a_call(command: list[str], why: str) -> None:
    hooks = {
        "guard": {"on": ["before_tool"], "command": command, "timeout_s": 0.3 if "sleep" in why + command[-1] else 60}
    }
    async with session_with(hooks, twice(), "ok") as (session, _model):
        events = await soon(events_of(session))
    assert CALLED == []
    (decision,) = of(tertulia.HookDecision, events)
    assert decision.failed
    assert why in decision.reason
    assert of(tertulia.TaskComplete, events)[0].status == "completed"


async def test_a_function_that_hangs_is_left_behind() -> None:
    async def hang(question: Question) -> None:
        await asyncio.Event().wait()

    async with session_with(asking(hang, "before_tool", timeout_s=0.01), twice(), "ok") as (session, _):
        (decision,) = of(tertulia.HookDecision, await soon(events_of(session)))
    assert decision.reason == "took longer than 0.01 s"


async def test_elsewhere_a_failure_is_said_and_work_goes_on() -> None:
    def fail(question: Question) -> None:
        raise ValueError

    hooks = asking(fail, "after_tool", "task_start", "task_end")
    async with session_with(hooks, twice(), "ok") as (session, _):
        events = await soon(events_of(session))
    assert [d.moment for d in of(tertulia.HookDecision, events)] == ["task_start", "after_tool", "task_end"]
    assert {d.decision for d in of(tertulia.HookDecision, events)} == {"continue"}
    assert [w.code for w in of(tertulia.WarningEvent, events)] == ["hooks"] * 3
    assert of(tertulia.ToolCallEnd, events)[0].output == "42"


async def test_what_a_function_does_to_its_argument_changes_nothing() -> None:
    def tamper(question: Question) -> None:
        question["arguments"]["number"] = 1_000

    async with session_with(asking(tamper, "before_tool"), twice(), "ok") as (session, _):
        await soon(session.root.message("go"))
    assert CALLED == [21]


async def test_a_call_can_be_given_fewer_rights_and_never_more() -> None:
    seen: list[tertulia.CallContext] = []

    @tertulia.tool
    def look(context: tertulia.CallContext) -> str:
        """Look at the rights."""
        seen.append(context)
        return ""

    answers = iter(
        [{"narrow": {"sandbox": "read-only"}}, {"narrow": {"sandbox": "danger-full-access", "network": True}}]
    )
    replies = (say("", call("look", {})), say("", call("look", {})), "ok")
    hooks = asking(lambda question: next(answers), "before_tool")
    async with session_with(hooks, *replies, tools=[look]) as (session, _):
        events = await soon(events_of(session))
    assert [(one.rights.sandbox, one.rights.network) for one in seen] == [
        ("read_only", False),
        ("workspace_write", False),
    ]
    assert [decision.narrowed for decision in of(tertulia.HookDecision, events)] == [("sandbox",), ()]


async def test_a_command_writes_nothing_in_a_narrower_sandbox(tmp_path: Path) -> None:
    write = say("", call("shell", {"command": ["touch", "made"]}))
    hooks = asking(lambda question: {"narrow": {"sandbox": "read-only"}}, "before_tool", tools=["shell"])
    async with session_with(hooks, write, "ok", cwd=str(tmp_path)) as (session, _):
        (end,) = of(tertulia.ToolCallEnd, await soon(events_of(session)))
    assert "Read-only file system" in end.output or not end.success
    assert not (tmp_path / "made").exists()


async def test_only_tools_that_it_names_are_asked_about() -> None:
    questions: list[str] = []
    hooks = asking(lambda question: questions.append(question["tool"]), "before_tool", tools=["conv_*", "dou?le"])
    replies = (twice(), say("", call("update_plan", {"plan": []})), say("", call("conv_list", {})), "ok")
    async with session_with(hooks, *replies) as (session, _):
        await soon(session.root.message("go"))
    assert questions == ["double", "conv_list"]


async def test_a_call_that_another_conversation_answers_is_asked_about() -> None:
    """It can be refused, but not narrowed; after it the answer of the other one is shown."""
    questions: list[tuple[str, Any]] = []

    def watch(question: Question) -> Question | None:
        questions.append((question["moment"], question.get("output")))
        if question["arguments"].get("user_instruction") == "narrow":
            return {"narrow": {"sandbox": "read-only"}}
        return {"context": "seen"} if question["moment"] == "after_tool" else None

    create = say("", call("conv_create", {"user_instruction": "look"}))
    narrow = say("", call("conv_create", {"user_instruction": "narrow"}))
    hooks = asking(watch, "before_tool", "after_tool")
    async with session_with(hooks, narrow, create, "the answer", "done") as (session, model):
        events = await soon(events_of(session))
        assert len(session.conversations()) == 2
    assert [moment for moment, _ in questions] == ["before_tool", "before_tool", "after_tool"]
    assert "the answer" in questions[-1][1]
    assert json.loads(of(tertulia.ToolCallEnd, events)[0].output)["code"] == "hook_refused"
    assert sent_texts(model)[-1] == '<hook_context hook="hook">\nseen\n</hook_context>'


async def test_a_task_can_be_refused_before_its_first_request() -> None:
    hooks = asking(lambda question: {"decision": "refuse", "reason": question["message"]}, "task_start")
    async with session_with(hooks, "never") as (session, model):
        reply = await soon(session.root.message("go"))
    assert reply.status == "failed"
    assert reply.error is not None
    assert (reply.error.code, reply.error.message) == ("hook_refused", "the hook hook refuses this: go")
    assert model.requests == []


async def test_the_end_of_a_task_is_told_with_how_it_ends() -> None:
    ends: list[tuple[str, str | None]] = []
    begun = asyncio.Event()

    @tertulia.tool
    async def wait_here() -> str:
        """Wait until stopped."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    hooks = asking(lambda question: ends.append((question["status"], question["last_message"])), "task_end")
    async with session_with(hooks, "fine", say("…", call("wait_here", {})), tools=[wait_here]) as (session, _):
        await soon(session.root.message("go"))
        running = asyncio.create_task(session.root.message("stopped"))
        await soon(begun.wait())
        await session.root.interrupt()
        await soon(running)
    assert ends == [("completed", "fine"), ("interrupted", "…")]


async def test_an_approval_is_refused_before_a_person_is_asked() -> None:
    asks = say("", call("shell", {"command": ["touch", "x"]}))
    kinds: list[str] = []

    def refuse(question: Question) -> Question:
        kinds.append(question["approval"]["kind"])
        return {"decision": "refuse", "reason": "never"}

    async with session_with(asking(refuse, "approval"), asks, "ok", approval_policy="untrusted") as (session, _):
        events = [event.data async for event in session.root.stream("go", approver=True)]
    assert kinds == ["exec"]
    assert of(tertulia.ApprovalRequest, events) == []
    assert json.loads(of(tertulia.ToolCallEnd, events)[0].output)["code"] == "hook_refused"


async def test_a_person_reads_what_a_hook_says_below_the_question() -> None:
    asks = say("", call("shell", {"command": ["touch", "x"]}))
    hooks = asking(lambda question: {"context": "ticket 7"}, "approval")
    details: list[str] = []
    async with session_with(hooks, asks, "ok", approval_policy="untrusted") as (session, _):
        async for event in session.root.stream("go", approver=True):
            if isinstance(event.data, tertulia.ApprovalRequest):
                details.append(event.data.detail)
                await session.approvals.resolve(event.data.approval_id, "deny")
    assert details[0].endswith("The hook hook says:\n│ ticket 7")


async def test_an_interrupt_ends_the_program_of_a_hook(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    hooks = {
        "slow": {"on": ["before_tool"], "command": ["sh", "-c", f"echo $$ > {pid}; exec sleep 1000"], "timeout_s": 60}
    }
    async with session_with(hooks, twice(), "ok") as (session, _):
        running = asyncio.create_task(session.root.message("go"))
        await becomes(lambda: pid.exists() and pid.read_text().endswith("\n"))
        await session.root.interrupt()
        assert (await soon(running)).status == "interrupted"
        await becomes(lambda: not Path("/proc", pid.read_text().strip()).exists())
    assert CALLED == []


@pytest.mark.parametrize("policy", ["headers_only", "none"])
async def test_its_texts_are_not_stored_where_texts_may_not_be(policy: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path / "home"))
    hooks = asking(lambda question: {"decision": "refuse", "reason": "canary-77aa"}, "before_tool")
    async with session_with(hooks, twice(), "ok", storage_policy=policy) as (session, _):
        (decision,) = of(tertulia.HookDecision, await soon(events_of(session)))
        assert decision.reason == "canary-77aa"
    found = [path for path in (tmp_path / "home").rglob("*") if path.is_file() and b"canary-77aa" in path.read_bytes()]
    assert found == []


async def test_a_thousand_calls_are_asked_about_in_seconds_of_cpu() -> None:
    """A function of Python: under 5 ms of CPU for each call, its task's share and the events included."""
    calls = say("", *(call("double", {"number": number}) for number in range(100)))
    hooks = asking(lambda question: None, "before_tool")
    async with session_with(hooks, *[calls] * 10, "ok") as (session, _):
        began = time.process_time()
        async with asyncio.timeout(HANG_S):
            await session.root.message("go")
        spent = time.process_time() - began
    assert len(CALLED) == 1_000
    assert spent < 20
