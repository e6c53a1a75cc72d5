"""A task done by an executor: its prompt, its own session where it can be resumed, and the events of its steps.

There is one history: the agent's answers are added to it, and the transcript in its prompt is made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import Any

from msgspec.structs import replace

from tertulia.conversation.backend import ExecutorPlan
from tertulia.conversation.compaction import trim_to_limits
from tertulia.conversation.native_session import NativeSession, RunMemory, identity_digest
from tertulia.conversation.output_check import is_repair_request, request_repair
from tertulia.conversation.state import ConversationState
from tertulia.conversation.step_publisher import StepPublisher
from tertulia.conversation.task_scope import TaskScope, clean_texts
from tertulia.errors import ModelError, UnsupportedByBackendError
from tertulia.executors.executor import (
    Assignment,
    Executor,
    ExecutorHost,
    NativeSessionId,
    Progress,
    ResumeSettings,
    RunEnd,
    RunFailed,
    RunFinished,
    RunInterrupted,
    UsageReport,
)
from tertulia.executors.prompt.history_prompt import HistorySettings, TaskHistorySettings, transcript
from tertulia.executors.step_events import StepEvents
from tertulia.policy.rights import Rights
from tertulia.protocol.events import WarningEvent
from tertulia.protocol.ids import ItemId, new_item_id
from tertulia.protocol.items import AssistantMessage, ImagePart, UserMessage, text_parts
from tertulia.protocol.records import NATIVE_SESSION, NoteRecord
from tertulia.protocol.storage import Full
from tertulia.protocol.worktree import OwnWorktree

_GAP = "\n\n"
_RESUME_FAILED = "could not go on with its own session; it is told the transcript instead"
_NOT_CONFIRMED = (
    "was stopped before it answered and did not confirm that it stopped; "
    "what it remembers is not known, so its next task is told the transcript instead"
)
_SCHEMA = "The whole answer must be one JSON value that fits this JSON Schema, and nothing else:\n"
_SPARE = 4
"""Messages that are read beyond the limit, so that the prompt can say that some are left out."""

SystemPart = Callable[[ConversationState], Sequence[str]]
"""What an agent is told beside the prompt in each run, after the conversation's instructions."""
WritableRoots = Callable[[Rights, OwnWorktree | None], tuple[str, ...]]
"""The directories that these rights let a task write, canonical."""
OpenServer = Callable[[TaskScope], AbstractAsyncContextManager[tuple[str, ...]]]
"""The command of the one MCP server that the agent gets, while it works; empty for none."""
EnvironmentVariables = Callable[[ConversationState], Mapping[str, str]]
"""Further variables for the environment of the agent and of its MCP server."""
MakeHost = Callable[[TaskScope, str], ExecutorHost | None]
"""Makes the host that the agent may ask while it works; the text names the run, as its calls do."""


def no_server(scope: TaskScope) -> AbstractAsyncContextManager[tuple[str, ...]]:
    """For an agent that cannot use an MCP server of ours."""
    return nullcontext(())


class ExecutorError(ModelError):
    """The agent or its program failed."""

    def __init__(self, failed: RunFailed) -> None:
        super().__init__(failed.message)
        self.code = failed.code


class ExecutorBackend:
    """Implements `Backend` with an executor. What it remembers of a conversation is in `ConversationState`."""

    def __init__(
        self,
        executor: Executor,
        continuity: HistorySettings,
        resuming: ResumeSettings,
        *,
        roots: WritableRoots,
        system: SystemPart = lambda _: (),
        server: OpenServer = no_server,
        variables: EnvironmentVariables = lambda _: {},
        host: MakeHost = lambda _, __: None,
    ) -> None:
        self._executor = executor
        self._continuity = continuity
        self._resuming = resuming
        self._roots = roots
        self._system = system
        self._server = server
        self._variables = variables
        self._host = host

    async def run(self, scope: TaskScope, commission: ExecutorPlan) -> None:
        """See `Backend`. A message that comes while it runs is the agent's next message, in the same task."""
        if scope.rights().approval_policy.needs_asking and not self._executor.can_ask:
            raise UnsupportedByBackendError(
                f"{self._executor.name} cannot ask a person, and the approval policy of this task needs that"
            )
        spending = scope.around.spending
        if spending is not None:
            spending.budget.backend_notice(self._executor.name)
        trim_to_limits(scope)
        scope.take_pending()
        first, previous = commission.input[0], commission.previous_result
        messages = [
            item for item in (first, *(_messages_after(scope.conversation, first.id) or ())) if not item.injected
        ]
        try:
            async with self._server(scope) as server:
                if _is_passing(commission):
                    # The agent starts a new session: its memory of this task must not continue an older one.
                    _forget_native_session(scope.conversation)
                while messages:
                    # Its own requests are its own: it is stopped before a run, not within one.
                    if spending is not None:
                        spending.require_room()
                    assignment = self._assignment(scope, commission, server)
                    await self._answer(scope, assignment, messages, self._continuity.of(commission.task_type), previous)
                    await scope.commit()
                    newest = _newest_item_id(scope.conversation)
                    scope.take_pending()
                    messages, previous = _messages_after(scope.conversation, newest), None
                    if not messages and (again := request_repair(scope, commission)) is not None:
                        messages = [again]
        finally:
            if _is_passing(commission):
                # It was for the rest of this task only, and is not recorded.
                scope.conversation.native_session = None
            if scope.conversation.closed or scope.conversation.terms.backend != self._executor.name:
                # It was closed, or given to another backend, meanwhile, while the agent was at work.
                await self._executor.forget(scope.conversation.id)

    async def _answer(
        self,
        scope: TaskScope,
        assignment: Assignment,
        messages: Sequence[UserMessage],
        telling: TaskHistorySettings,
        previous: object,
    ) -> None:
        """Get one answer: in the agent's own session where it can be resumed, else with the transcript; never both."""
        conversation = scope.conversation
        if any(isinstance(part, ImagePart) for item in messages for part in item.parts):
            scope.publish(
                WarningEvent(f"{self._executor.name} is not shown the pictures of this message", "no_pictures")
            )
        message = _GAP.join(item.text for item in messages)
        native_session, conversation.native_session = conversation.native_session, None
        earlier, scope.last_text = scope.last_text, None
        if native_session is not None and self._may_resume(scope, telling):
            why = self._mismatch(conversation, native_session, messages)
            if why is None:
                prompt = telling.prompt((), message, previous)
                own = {"resume": native_session.native_id, "total": native_session.total, "told": native_session.told}
                ending, knew = await self._run(
                    scope, replace(assignment, prompt=prompt, **own), telling, native_session
                )
                if isinstance(ending, RunFinished) or knew or self._resuming.on_resume_failure == "fail":
                    return await _finish_task(scope, ending, earlier)
                why = _failure_text(ending)
            scope.publish(WarningEvent(f"{self._executor.name} {_RESUME_FAILED} ({why})", "resume_failed"))
        history = transcript(
            conversation.history.snapshot(), before=messages[0].id, limit=telling.max_messages + _SPARE
        )
        assignment = replace(assignment, prompt=telling.prompt(history, message, previous))
        ending, _ = await self._run(scope, assignment, telling, native_session)
        return await _finish_task(scope, ending, earlier)

    def _may_resume(self, scope: TaskScope, telling: TaskHistorySettings) -> bool:
        return (
            self._resuming.strategy == "auto"
            and telling.mode == "full"
            and self._executor.can_resume
            and not _is_private(scope)
        )

    def _mismatch(
        self, conversation: ConversationState, native_session: NativeSession, messages: Sequence[UserMessage]
    ) -> str | None:
        """Why the agent's own session cannot be resumed; None where it can."""
        why = native_session.mismatch(
            identity_digest(self._executor.identity), conversation.terms.cwd, conversation.history.revision
        )
        since = _messages_after(conversation, native_session.upto)
        if why is None and (since is None or [item.id for item in since] != [item.id for item in messages]):
            # A message whose task never reached the agent, or during which the process ended.
            return "it was not told all that was said"
        return why

    def _assignment(self, scope: TaskScope, commission: ExecutorPlan, server: tuple[str, ...]) -> Assignment:
        conversation, context = scope.conversation, scope.conversation.terms.context
        override = commission.base_instructions_override
        base = context.base_instructions if override is None else override
        schema = None if commission.output is None else _SCHEMA + commission.output.schema
        additions = (base, context.user_instructions, *self._system(conversation), schema)
        return Assignment(
            prompt="",
            cwd=conversation.terms.cwd,
            additions=tuple(text for text in additions if text),
            passing=_is_passing(commission),
            rights=scope.rights(),
            roots=self._roots(scope.rights(), scope.conversation.terms.worktree),
            private=_is_private(scope),
            server=server,
            variables=self._variables(conversation),
            conversation=conversation.id,
        )

    async def _run(
        self, scope: TaskScope, assignment: Assignment, telling: TaskHistorySettings, former: NativeSession | None
    ) -> tuple[RunEnd, bool]:
        """Run the agent once and publish its steps; returns (how it ended, whether its session had begun).

        `former`: what it remembered so far. Its id is kept as the retry mode says, and never where it was told less
        than what was said. A change of the context removes it.
        """
        conversation, executor = scope.conversation, self._executor
        room, clock = assignment.rights.limits.max_output_bytes, scope.around.clock
        run, memory = new_item_id(), RunMemory()
        host = self._host(scope, run)
        assignment = replace(assignment, host=host, acknowledged=memory.confirm)
        step_events = StepEvents(
            executor.name, run, assignment.cwd, clock,
            max_output_bytes=room, allowed_by=host.allowed_by if host is not None else _unasked,
        )  # fmt: skip
        progress = StepPublisher(scope, step_events)
        ending: RunEnd = RunInterrupted()
        origin = (identity_digest(executor.identity), assignment.cwd, conversation.history.revision, assignment.total)
        native_session = conversation.native_session = NativeSession("", *origin, told=assignment.digest)
        try:
            async with aclosing(executor.run(assignment)) as steps:
                async for step in steps:
                    # Output of an agent that continues although it was stopped is dropped.
                    scope.check_wanted()
                    await progress.tell_any(step)
                    memory.heard = memory.heard or not isinstance(step, NativeSessionId | Progress)
                    match step:
                        case NativeSessionId(found):
                            memory.begun = True
                            native_session = _update_native_session(conversation, native_session, native_id=found)
                        case UsageReport(turn, total):
                            scope.charge(turn)
                            native_session = _update_native_session(conversation, native_session, total=total)
                        case RunFinished() | RunFailed() | RunInterrupted():
                            ending = step
                        case _:
                            pass
        finally:
            lasting = isinstance(ending, RunFinished) or self._resuming.retry == "resume"
            wanted = lasting and telling.mode == "full" and not assignment.private
            resumable = wanted and memory.begun and memory.heard
            _record_native_session(conversation, native_session, resumable, former, recorded=not assignment.passing)
            if wanted and not memory.heard and (memory.begun or former is not None):
                scope.publish(WarningEvent(f"{executor.name} {_NOT_CONFIRMED}", "resume_failed"))
        progress.close()
        scope.check_wanted()
        return ending, memory.begun


def _is_passing(commission: ExecutorPlan) -> bool:
    """Whether the prompt has parts that hold for this task only and that the agent's session would remember."""
    return commission.base_instructions_override is not None or commission.output is not None


def _forget_native_session(conversation: ConversationState) -> None:
    if conversation.native_session is not None:
        conversation.native_session = None
        conversation.note(NoteRecord(conversation.id, NATIVE_SESSION, None))


def _update_native_session(
    conversation: ConversationState, native_session: NativeSession | None, **changes: Any
) -> NativeSession | None:
    """The native session with what the agent said of it; None if it was removed or replaced meanwhile."""
    if native_session is None or conversation.native_session is not native_session:
        return None
    conversation.native_session = replace(native_session, **changes)
    return conversation.native_session


def _record_native_session(
    conversation: ConversationState,
    native_session: NativeSession | None,
    resumable: bool,
    former: NativeSession | None,
    *,
    recorded: bool,
) -> None:
    """A run has ended: record its session id, also for a resumed session, or that there is none any more.

    Not `recorded`, it is for the rest of this task alone.
    """
    native_session = _update_native_session(conversation, native_session, upto=_newest_item_id(conversation))
    if native_session is None:
        return
    conversation.native_session = native_session if resumable else None
    if recorded and (resumable or former is not None):
        conversation.note(NoteRecord(conversation.id, NATIVE_SESSION, native_session.noted() if resumable else None))


async def _finish_task(scope: TaskScope, ending: RunEnd, earlier: str | None) -> None:
    """`earlier`: what this task had answered before, to a message that was put in later."""
    match ending:
        case RunFinished(text):
            if text and scope.last_text is None:
                await clean_texts(scope, [text])
                item = AssistantMessage(new_item_id(), text_parts(text))
                scope.say([item])
                scope.announce(item)
            scope.last_text = text or scope.last_text or earlier
        case RunFailed(code="interrupted"):
            raise _interrupted_error(scope, ending)
        case RunFailed():
            raise ExecutorError(ending)
        case RunInterrupted():
            sentence = "the agent's output ended before it said how the task did"
            raise _interrupted_error(scope, RunFailed(sentence, "interrupted"))


def _interrupted_error(scope: TaskScope, ending: RunFailed) -> ExecutorError:
    """The outcome is unknown: the task ends like one that was stopped, and a warning says why."""
    scope.publish(WarningEvent(ending.message, "interrupted"))
    task = scope.conversation.task
    if task is not None and task.reason is None:
        # Not `abort`: nothing is left to be cancelled but the tidying up.
        task.reason = "interrupted"
    return ExecutorError(ending)


def _newest_item_id(conversation: ConversationState) -> ItemId:
    return next(conversation.history.snapshot().newest_first()).items[-1].id


def _unasked(call: str) -> None:
    """No decider: an agent that cannot ask has no approved steps."""


def _failure_text(ending: RunEnd) -> str:
    return ending.message if isinstance(ending, RunFailed) else "it did not say why"


def _is_private(scope: TaskScope) -> bool:
    """Whether the agent must leave nothing behind: its own transcripts are storage too."""
    return not (isinstance(scope.storage(), Full) and scope.conversation.history.may_be_kept_elsewhere)


def _messages_after(conversation: ConversationState, item_id: ItemId) -> list[UserMessage] | None:
    """What users said after that item, oldest first; None where the item is not in the history any more."""
    messages: list[UserMessage] = []
    for segment in conversation.history.snapshot().newest_first():
        for item in reversed(segment.items):
            if item.id == item_id:
                return messages[::-1]
            if isinstance(item, UserMessage) and (not item.injected or is_repair_request(item)):
                messages.append(item)
    return None
