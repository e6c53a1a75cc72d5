"""A task done by an executor, as far as no program is needed: see `tests/session/agents/test_backends_command.py`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Literal

import msgspec
import pytest
from msgspec.structs import replace

from tertulia.conversation.executor_backend import ExecutorBackend, ExecutorError
from tertulia.conversation.output_check import OutputCheck, check_by_schema
from tertulia.conversation.task_handle import TaskHandle
from tertulia.errors import InvalidOutputError, UnsupportedByBackendError
from tertulia.executors.executor import (
    AgentText,
    Assignment,
    NativeSessionId,
    ResumeSettings,
    RunFailed,
    RunFinished,
    RunInterrupted,
    Step,
    ToolUseEnd,
    UsageReport,
)
from tertulia.executors.prompt.history_prompt import HistorySettings
from tertulia.policy.approval_policy import NEVER, UNTRUSTED
from tertulia.policy.rights import TOP
from tertulia.protocol.ids import new_item_id
from tertulia.protocol.items import Usage, UserMessage, text_parts
from tertulia.protocol.records import NoteRecord
from tertulia.protocol.storage import HeadersOnly
from tests.conversation.conversations import KeepingJournal, make_conversation, terms
from tests.conversation.task_stage import TaskStage, task_stage
from tests.tables import each_row

RIGHTS = replace(TOP, approval_policy=NEVER)


def calm(**fields: Any) -> TaskStage:
    """Where nobody has to be asked."""
    return task_stage(**{"rights": RIGHTS, **fields})


class Order(msgspec.Struct, frozen=True):
    """Implements `Commission`."""

    input: tuple[UserMessage, ...]
    base_instructions_override: str | None = None
    output: OutputCheck | None = None
    may_repair: bool = True
    task_type: Literal["code", "chat"] | None = None
    previous_result: Any = None


class Actor:
    """Implements `Executor` with steps that were written down before."""

    name = "actor"
    identity = ("actor",)
    can_resume = True

    def __init__(self, *runs: Sequence[Step], can_ask: bool = False) -> None:
        self._runs = list(runs)
        self.can_ask = can_ask
        self.assignments: list[Assignment] = []
        self.forgotten: list[str] = []

    async def run(self, assignment: Assignment) -> AsyncGenerator[Step, None]:
        self.assignments.append(assignment)
        for step in self._runs.pop(0):
            yield step

    async def forget(self, conversation: str) -> None:
        self.forgotten.append(conversation)


def agent(actor: Actor, **resuming: Any) -> ExecutorBackend:
    return ExecutorBackend(actor, HistorySettings(), ResumeSettings(**resuming), roots=lambda _, __: ("/work",))


async def ask(agent: ExecutorBackend, stands: TaskStage, text: str = "hello", **fields: Any) -> None:
    message = UserMessage(new_item_id(), text_parts(text))
    stands.scope.say([message])
    await agent.run(stands.scope, Order((message,), **fields))


def answer(text: str, found: str | None = "t-1") -> list[Step]:
    known: list[Step] = [] if found is None else [NativeSessionId(found)]
    return [*known, AgentText("m", text), RunFinished(text)]


async def test_a_result_without_a_message_is_the_answer() -> None:
    stands = calm()
    await ask(agent(Actor([RunFinished("only the result")])), stands)
    assert stands.scope.last_text == "only the result"
    assert [item.text for item in stands.conversation.history.messages()] == ["hello", "only the result"]


async def test_of_several_messages_the_one_that_the_agent_calls_its_result_is_the_answer() -> None:
    stands = calm()
    steps = [
        AgentText("1", "first I look"),
        AgentText("2", "forty-two"),
        AgentText("3", "bye"),
        RunFinished("forty-two"),
    ]
    await ask(agent(Actor(steps)), stands)
    assert stands.scope.last_text == "forty-two"
    assert [item.text for item in stands.conversation.history.messages()][1:] == ["first I look", "forty-two", "bye"]


@each_row(
    ("ending", "code"), [(RunFailed("no", "limit"), "limit"), (RunInterrupted(), "interrupted"), (None, "interrupted")]
)
async def test_an_agent_that_gives_up_fails_the_task(ending: Step | None, code: str) -> None:
    """S003-30; an interrupted run gets its terminal event."""
    stands = calm()
    stands.conversation.task = task = TaskHandle(stands.scope.task_id, 0.0)
    with pytest.raises(ExecutorError) as failed:
        await ask(agent(Actor([ending] if ending else [])), stands)
    assert failed.value.code == code
    assert task.reason == ("interrupted" if code == "interrupted" else None), "it ends like one that was stopped"


async def test_what_it_cost_is_charged_and_handed_to_its_next_run() -> None:
    """S003-26: the agent counts in all."""
    stands, cost = calm(), Usage(10, 0, 5, 0, 15)
    actor = Actor([NativeSessionId("t-1"), UsageReport(cost, cost), RunFinished("a")], answer("b"))
    doing = agent(actor)
    await ask(doing, stands)
    await ask(doing, stands)
    assert stands.scope.spent == cost
    assert [assignment.total for assignment in actor.assignments] == [Usage(0, 0, 0, 0, 0), cost]
    assert [assignment.resume for assignment in actor.assignments] == [None, "t-1"]


async def test_a_native_session_is_made_anew_by_each_run() -> None:
    """S003-32: re-captured every run."""
    stands = calm()
    actor = Actor(answer("a", "t-1"), answer("b", "t-2"), answer("c", None), answer("d"))
    doing = agent(actor)
    for _ in range(4):
        await ask(doing, stands)
    assert [assignment.resume for assignment in actor.assignments] == [None, "t-1", "t-2", None]


async def test_a_run_that_may_leave_nothing_has_no_native_session() -> None:
    """DESIGN: any policy but full: a temporary HOME and no native resume."""
    stands = calm(rights=replace(RIGHTS, storage_policy=HeadersOnly()))
    actor = Actor(answer("a"), answer("b"))
    doing = agent(actor)
    await ask(doing, stands)
    await ask(doing, stands)
    assert [(assignment.private, assignment.resume) for assignment in actor.assignments] == [(True, None)] * 2
    assert stands.conversation.native_session is None


async def test_the_rights_of_the_chain_may_need_asking_although_its_own_do_not() -> None:
    """No confused deputy: the strictest of the chain counts, at the task."""
    stands = task_stage(rights=replace(TOP, approval_policy=UNTRUSTED))
    actor = Actor(answer("a"), answer("b"))
    with pytest.raises(UnsupportedByBackendError, match="actor cannot ask a person"):
        await ask(agent(actor), stands)
    assert actor.assignments == []
    await ask(agent(Actor(answer("a"), can_ask=True)), stands)
    assert stands.scope.last_text == "a"


async def test_instructions_for_one_task_take_the_place_of_the_conversations() -> None:
    stands = calm(base="usual", user="mine")
    actor = Actor(answer("a"), answer("{}"))
    doing = agent(actor)
    await ask(doing, stands)
    await ask(doing, stands, base_instructions_override="for now", output=check_by_schema({}))
    first, second = (assignment.additions for assignment in actor.assignments)
    assert first == ("usual", "mine")
    assert second[:2] == ("for now", "mine")
    assert second[2].endswith("{}")


NUMBER = check_by_schema({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})


async def test_an_agent_repairs_its_answer_once_with_the_errors_and_by_its_own_memory() -> None:
    """Issue 19, item 12: whoever does the work."""
    stands = calm()
    actor = Actor(answer('{"n": "1"}'), answer('{"n": 1}'))
    await ask(agent(actor), stands, output=NUMBER)
    assert stands.scope.last_text == '{"n": 1}'
    first, second = actor.assignments
    assert (first.resume, second.resume) == (None, "t-1")
    assert "$.n: expected integer, got string" in second.prompt
    assert "hello" not in second.prompt


async def test_an_agent_that_cannot_repair_its_answer_fails_the_task() -> None:
    actor = Actor(answer("one"), answer("{}"))
    with pytest.raises(InvalidOutputError) as failed:
        await ask(agent(actor), calm(), output=NUMBER)
    assert failed.value.errors == ('$: expected a property "n", got nothing',)


async def test_an_agent_remembers_nothing_of_instructions_that_were_for_one_task() -> None:
    """Issue 17, item 15: for that task only. It begins anew, and the next task does; both are told the transcript."""
    journal = KeepingJournal()
    stands = TaskStage(make_conversation(terms(rights=RIGHTS), journal=journal))
    actor = Actor(answer("a"), answer("b", "t-2"), answer("c", "t-3"), answer("d", "t-3"))
    doing = agent(actor)
    await ask(doing, stands)
    await ask(doing, stands, "again", base_instructions_override="in verse")
    assert stands.conversation.native_session is None
    notes = [record for record in journal.kept if isinstance(record, NoteRecord)]
    assert [note.value is None for note in notes] == [False, True], "nor is it known to a later life of the session"
    await ask(doing, stands, "and again")
    await ask(doing, stands, "once more")
    assert [assignment.resume for assignment in actor.assignments] == [None, None, None, "t-3"]
    assert all("Assistant: a" in assignment.prompt for assignment in actor.assignments[1:3])
    assert "warning" not in stands.types()


async def test_an_agent_remembers_nothing_of_a_schema_that_was_for_one_task() -> None:
    """Issue 17, item 15: it repairs its answer by its own memory, and the next task begins anew by the transcript."""
    journal = KeepingJournal()
    stands = TaskStage(make_conversation(terms(rights=RIGHTS), journal=journal))
    answers = [answer("a"), answer("no", "t-2"), answer('{"n": 1}', "t-2"), answer("c", "t-3"), answer("d", "t-3")]
    actor = Actor(*answers)
    doing = agent(actor)
    await ask(doing, stands)
    await ask(doing, stands, "again", output=NUMBER)
    assert stands.conversation.native_session is None
    notes = [record for record in journal.kept if isinstance(record, NoteRecord)]
    assert notes[-1].value is None, "nor is it known to a later life of the session"
    await ask(doing, stands, "and again")
    await ask(doing, stands, "once more")
    assert [assignment.resume for assignment in actor.assignments] == [None, None, "t-2", None, "t-3"]
    assert [bool(assignment.additions) for assignment in actor.assignments] == [False, True, True, False, False]
    assert "warning" not in stands.types()


async def test_messages_that_wait_go_along_with_the_next_one() -> None:
    stands = calm()
    actor = Actor(answer("a"))
    waiting = UserMessage(new_item_id(), text_parts("and this"))
    stands.conversation.queue_input(waiting)
    await ask(agent(actor), stands)
    assert actor.assignments[0].prompt == "hello\n\nand this"


async def test_a_resume_that_is_refused_without_a_word_falls_back_too() -> None:
    """X-58"""
    stands = calm()
    actor = Actor(answer("a"), [RunInterrupted()], answer("b"))
    doing = agent(actor)
    await ask(doing, stands)
    stands.told()
    await ask(doing, stands, "again")
    assert [assignment.resume for assignment in actor.assignments] == [None, "t-1", None]
    assert "Assistant: a" in actor.assignments[-1].prompt
    assert stands.told()[0].data.message.endswith("(it did not say why)")


async def test_a_resumed_run_that_fails_later_has_failed() -> None:
    """Never both: one that had begun is not run a second time."""
    stands = calm()
    actor = Actor(answer("a"), [NativeSessionId("t-1"), RunFailed("broke")])
    doing = agent(actor)
    await ask(doing, stands)
    with pytest.raises(ExecutorError, match="broke"):
        await ask(doing, stands)
    assert len(actor.assignments) == 2


async def test_a_resumed_run_that_fails_later_is_not_repeated_although_the_next_one_begins_anew() -> None:
    """S003-33, X-58: `new_session` is for the next task; what this one did it did."""
    stands = calm()
    actor = Actor(
        answer("a"), [NativeSessionId("t-1"), AgentText("m", "deleted it"), RunFailed("broke")], answer("b", "t-2")
    )
    doing = agent(actor, retry="new_session")
    await ask(doing, stands)
    with pytest.raises(ExecutorError, match="broke"):
        await ask(doing, stands)
    assert [assignment.resume for assignment in actor.assignments] == [None, "t-1"]
    await ask(doing, stands, "and now")
    assert actor.assignments[-1].resume is None
    assert "Assistant: deleted it" in actor.assignments[-1].prompt


async def test_a_run_that_was_told_little_and_was_stopped_leaves_no_id() -> None:
    """X-61: it must not be taken for one that knows everything by a task of another kind."""
    stands = calm()
    little = replace(HistorySettings(), chat=replace(HistorySettings().chat, mode="last_assistant"))
    actor = Actor([NativeSessionId("t-1"), AgentText("m", "half"), RunFailed("stopped")], answer("b"))
    doing = ExecutorBackend(actor, little, ResumeSettings(), roots=lambda _, __: ("/work",))
    with pytest.raises(ExecutorError):
        await ask(doing, stands, task_type="chat")
    assert stands.conversation.native_session is None
    await ask(doing, stands, "again", task_type="code")
    assert actor.assignments[-1].resume is None


@each_row("at", range(3))
async def test_a_context_that_is_set_while_it_works_makes_its_id_stale_too(at: int) -> None:
    """DESIGN, native ids: set_context, whenever it comes."""
    stands = calm()
    actor = Actor(answer("a"), answer("b"))
    real = actor.run

    async def run(assignment: Assignment) -> AsyncGenerator[Step, None]:
        number = 0
        async for step in real(assignment):
            if len(actor.assignments) == 1 and number == at:
                stands.conversation.adopt(stands.conversation.terms)
            number += 1
            yield step

    actor.run = run  # type: ignore[method-assign]
    doing = agent(actor)
    await ask(doing, stands)
    assert stands.conversation.native_session is None
    await ask(doing, stands, "again")
    assert actor.assignments[-1].resume is None


async def test_what_a_conversation_had_cost_is_known_after_a_run_that_did_not_say() -> None:
    """Codex counts over its whole thread: what was charged once is not charged again."""
    stands = calm()
    total = Usage(10, 0, 1, 0, 11)
    first: list[Step] = [NativeSessionId("t-1"), UsageReport(total, total), RunFinished("a")]
    actor = Actor(first, [NativeSessionId("t-1"), RunFailed("stopped")], answer("c"))
    doing = agent(actor)
    await ask(doing, stands)
    with pytest.raises(ExecutorError):
        await ask(doing, stands)
    await ask(doing, stands)
    assert [assignment.total for assignment in actor.assignments[1:]] == [total, total]


async def test_what_its_tools_printed_is_told_within_the_limits_of_the_task() -> None:
    """DESIGN, limits: `max_output_bytes` holds for executors' calls as well."""
    stands = calm(rights=replace(RIGHTS, limits=replace(RIGHTS.limits, max_output_bytes=100)))
    done = ToolUseEnd("c", "tool", {}, None, success=True, output="x" * 1_000)
    await ask(agent(Actor([done, RunFinished("ok")])), stands)
    (end,) = [event.data for event in stands.told() if event.type == "tool_call_end"]
    assert end.truncated
    assert len(end.output) <= 100


async def test_what_is_only_a_result_joins_the_history_in_a_later_answer_too() -> None:
    """X-60: one history; a message that was put in meanwhile is answered like the first."""
    stands = calm()
    actor = Actor(answer("first"), [NativeSessionId("t-1"), RunFinished("second")])
    real = actor.run

    async def run(assignment: Assignment) -> AsyncGenerator[Step, None]:
        if not actor.assignments:
            stands.conversation.queue_input(UserMessage(new_item_id(), text_parts("and?")))
        async for step in real(assignment):
            yield step

    actor.run = run  # type: ignore[method-assign]
    await ask(agent(actor), stands)
    assert stands.scope.last_text == "second"
    assert [item.text for item in stands.conversation.history.messages()] == ["hello", "first", "and?", "second"]


async def test_an_agent_that_goes_on_after_its_task_was_given_up_is_heard_no_more() -> None:
    """HARDENING I6: what comes late is discarded."""
    stands = calm()
    actor = Actor([AgentText("1", "in time"), AgentText("2", "too late"), RunFinished("too late")])
    real = actor.run

    async def run(assignment: Assignment) -> AsyncGenerator[Step, None]:
        async for step in real(assignment):
            yield step
            stands.scope.revoke()

    actor.run = run  # type: ignore[method-assign]
    with pytest.raises(asyncio.CancelledError):
        await ask(agent(actor), stands)
    assert [item.text for item in stands.conversation.history.messages()] == ["hello", "in time"]


async def test_a_message_that_never_came_to_it_is_told_with_the_next_one() -> None:
    """S003-04, S003-32: a task that ended before its agent was asked; then its own memory is not enough."""
    stands = calm()
    actor = Actor(answer("a"), answer("b"), answer("c"))
    doing = agent(actor)
    await ask(doing, stands, "first")
    stands.scope.say([UserMessage(new_item_id(), text_parts("lost"))])
    stands.told()
    await ask(doing, stands, "second")
    assert actor.assignments[-1].resume is None
    assert [actor.assignments[-1].prompt.count(text) for text in ("User: first", "User: lost", "second")] == [1, 1, 1]
    (warning,) = [event.data for event in stands.told() if event.type == "warning"]
    assert warning.code == "resume_failed"
    assert "not told all" in warning.message
    await ask(doing, stands, "third")
    assert (actor.assignments[-1].resume, actor.assignments[-1].prompt) == ("t-1", "third")


async def test_what_we_said_ourselves_makes_no_difference_to_it() -> None:
    """S003-32: what is injected is told beside the prompt, if at all."""
    stands = calm()
    actor = Actor(answer("a"), answer("b"))
    doing = agent(actor)
    await ask(doing, stands, "first")
    stands.conversation.instruct([UserMessage(new_item_id(), text_parts("<note>"), injected=True)])
    await ask(doing, stands, "second")
    assert actor.assignments[-1].resume == "t-1"


async def test_its_id_is_noted_after_each_run_and_taken_back_where_there_is_none() -> None:
    """S003-32, S003-33: for later lives of the session; kept for `resume`, dropped for `new_session`."""
    journal = KeepingJournal()
    stands = TaskStage(make_conversation(terms(rights=RIGHTS), journal=journal))
    actor = Actor(answer("a"), [NativeSessionId("t-2"), RunFailed("no")])
    doing = agent(actor, retry="new_session")
    await ask(doing, stands)
    (first,) = [record for record in journal.kept if isinstance(record, NoteRecord)]
    assert first.value is not None
    newest = next(stands.conversation.history.snapshot().newest_first()).items[-1].id
    assert (first.name, first.value["native_id"], first.value["upto"]) == ("bond", "t-1", newest)
    with pytest.raises(ExecutorError):
        await ask(doing, stands)
    assert journal.kept[-1] == NoteRecord(stands.conversation.id, "bond")


async def test_for_one_that_has_no_ids_nothing_is_noted() -> None:
    """S003-32: nothing is written where there is nothing to remember, and nothing was."""
    journal = KeepingJournal()
    stands = TaskStage(make_conversation(terms(rights=RIGHTS), journal=journal))
    await ask(agent(Actor(answer("a", None))), stands)
    assert not any(isinstance(record, NoteRecord) for record in journal.kept)


async def test_one_that_was_given_another_conversation_meanwhile_is_told_to_leave() -> None:
    """Issue 11, 4: its conversation has another backend now, and no task will come."""
    stands = calm()
    actor = Actor(answer("a"), answer("b"))
    stands.conversation.terms = replace(stands.conversation.terms, backend="actor")
    await ask(agent(actor), stands)
    assert actor.forgotten == []
    stands.conversation.terms = replace(stands.conversation.terms, backend="native")
    await ask(agent(actor), stands)
    assert actor.forgotten == [stands.conversation.id]


@each_row(("steps", "resume"), [(1, None), (2, "t-1")])
async def test_one_that_was_stopped_before_it_said_anything_is_told_all_again(steps: int, resume: str | None) -> None:
    """S003-30, S003-33: it may never have read its prompt; that it has begun a session proves nothing."""
    stands = calm()
    actor = Actor([NativeSessionId("t-1"), AgentText("m", "half"), AgentText("n", "way")], answer("b"))
    real, seen = actor.run, 0

    async def run(assignment: Assignment) -> AsyncGenerator[Step, None]:
        nonlocal seen
        async for step in real(assignment):
            if len(actor.assignments) == 1 and seen == steps:
                raise asyncio.CancelledError
            seen += 1
            yield step

    actor.run = run  # type: ignore[method-assign]
    doing = agent(actor)
    with pytest.raises(asyncio.CancelledError):
        await ask(doing, stands, "first")
    await ask(doing, stands, "second")
    assert actor.assignments[-1].resume == resume
    assert ("User: first" in actor.assignments[-1].prompt) == (resume is None)
