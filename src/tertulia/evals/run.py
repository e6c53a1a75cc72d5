"""One run: a candidate does a task in a fresh copy of its repository, then the hidden check judges what is there.

While the candidate works, the check is neither in the workspace nor to be seen: the suite and the results are masked
for commands, and hidden from the programs of executors, in a namespace of mounts. Where the kernel gives none, those
programs are held by nothing but their own sandbox: `confined` says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import msgspec
from msgspec.structs import replace

from tertulia.conversation.terms import NATIVE
from tertulia.errors import InvalidParamsError, SandboxError, TertuliaError
from tertulia.evals.candidate import EvalCandidate
from tertulia.evals.checking import Checker, CheckJob, CheckResult, RunFacts
from tertulia.evals.event_tally import EventTally
from tertulia.evals.results import Outcome, RunRecord, without_texts
from tertulia.evals.task import Task
from tertulia.evals.workspace import make_workspace, temporary_place
from tertulia.events.clock import Clock, Timestamps
from tertulia.policy.orders import SANDBOX_ORDER
from tertulia.protocol.conversation_fields import sandbox_from_wire
from tertulia.protocol.storage import Full, NoStorage, StoragePolicy
from tertulia.scheduler.reply import Reply
from tertulia.session.rights.hidden_places import hide_places
from tertulia.session.session import Session
from tertulia.session.settings.plugins import EXECUTOR_PREFIX
from tertulia.session.settings.settings import Settings

_SHOWN = 2_000
_OUTCOMES: dict[str, Outcome] = {"model_error": "provider", "timeout": "timeout", "limit": "budget"}
"""By the code of an error; any code that speaks of a budget is one too."""

LoadForRun = Callable[[EvalCandidate, Path], Settings]
"""The settings of a candidate, for a workspace."""


class RunPlan(msgspec.Struct, frozen=True):
    """What is to be done once."""

    task: Task
    candidate: EvalCandidate
    candidate_fingerprint: str
    repeat: int


class SessionEnd(msgspec.Struct, frozen=True):
    """What came of the candidate's work, before it was judged."""

    session: str
    tally: EventTally
    duration_s: float
    storage: StoragePolicy
    """What may be written down of it."""
    reply: Reply | None = None
    """None: it was stopped, or failed before it could answer."""
    stopped: Outcome | None = None
    error: TertuliaError | None = None
    hidden: bool = False
    """Whether programs outside the sandbox could not see the checks either."""

    @property
    def facts(self) -> RunFacts:
        """What the check is told about the run."""
        status = "interrupted" if self.reply is None else self.reply.status
        answer = "" if self.reply is None else self.reply.text or ""
        return RunFacts(answer, status, tuple(self.tally.calls), self.tally.conversations())


class EvalRunner:
    """Does runs, any number at once."""

    def __init__(
        self,
        load: LoadForRun,
        checker: Checker,
        *,
        masked: tuple[Path, ...],
        variables: Mapping[str, str],
        clock: Clock,
    ) -> None:
        """`masked` is what no candidate may see: the suite, and the results. `variables` are the environment's."""
        self._load = load
        self._checker = checker
        self._variables = variables
        self._clock = clock
        self._masked = tuple(map(str, masked))
        self._timestamps = Timestamps(clock)

    async def run(
        self,
        plan: RunPlan,
        *,
        most_s: float | None = None,
        spend: Callable[[int, float | None], bool] = lambda tokens, cost: False,
    ) -> RunRecord:
        """Do one run and judge it. What fails is a record; InvalidParamsError (a mistake in the settings) is raised.

        Args:
            plan: The task, the candidate and which repetition it is.
            most_s: The most seconds that it may take; the task's own limit holds too.
            spend: Called with the tokens and the cost of each request; True stops the run.
        """
        started_at = self._timestamps()
        async with temporary_place() as place:
            workspace = await make_workspace(plan.task, place, self._variables)
            settings = self._settings(plan, self._load(plan.candidate, workspace), workspace)
            end = await self._work(plan, settings, spend, min(most_s or 86_400, plan.task.table.timeout_s))
            outcome, detail = await self._judge(plan.task, workspace, end)
        record = _record(plan, end, started_at, outcome, detail)
        return record if end.storage == Full() else without_texts(record, is_stored=end.storage != NoStorage())

    def _settings(self, plan: RunPlan, settings: Settings, workspace: Path) -> Settings:
        task = plan.task.table
        sandbox = SANDBOX_ORDER.meet(settings.rights.sandbox, sandbox_from_wire(task.sandbox))
        masks = {**settings.masks, "add": (*settings.masks.get("add", ()), *self._masked)}
        return replace(
            settings,
            cwd=str(workspace),
            sandbox=sandbox,
            # The copy of the repository alone.
            writable_roots=None,
            masks=masks,
            unattended=True,
            session_sockets=False,
            notify=(),
        )

    async def _work(
        self, plan: RunPlan, settings: Settings, spend: Callable[[int, float | None], bool], limit_s: float
    ) -> SessionEnd:
        """Let the candidate work until it has answered, is out of time or has spent too much."""
        began, tally, session_id = self._clock.monotonic(), EventTally(spend), ""
        storage = settings.rights.storage_policy
        reply, stopped, failure, hidden = None, None, None, False
        try:
            async with Session(settings) as session, asyncio.TaskGroup() as group:
                session_id, storage = str(session.id), session.root.details.rights.storage_policy
                group.create_task(tally.follow(session))
                try:
                    hidden = await hide_places(session, self._masked)
                    reply, stopped = await _answer(session, plan, tally, limit_s)
                finally:
                    # Closed here, so that the events end and with them the group.
                    await session.close()
        except ExceptionGroup as several:
            failure = _first(several)
        except TertuliaError as error:
            failure = error
        if failure is not None and (not isinstance(failure, TertuliaError) or isinstance(failure, InvalidParamsError)):
            raise failure
        took_s = self._clock.monotonic() - began
        return SessionEnd(session_id, tally, took_s, storage, reply, stopped, failure, hidden)

    async def _judge(self, task: Task, workspace: Path, end: SessionEnd) -> tuple[Outcome, str]:
        failed = _failure(end)
        if failed is not None:
            return failed
        try:
            (result,) = await self._checker.run([CheckJob(task, workspace, end.facts)], workspace)
        except SandboxError as error:
            return "check", error.message
        return _verdict(result, end)


def _first(several: ExceptionGroup[Exception]) -> Exception:
    """The cause: the first of all, however deep groups lie in one another."""
    first = several.exceptions[0]
    return _first(cast("ExceptionGroup[Exception]", first)) if isinstance(first, ExceptionGroup) else first


async def _answer(
    session: Session, plan: RunPlan, tally: EventTally, limit_s: float
) -> tuple[Reply | None, Outcome | None]:
    """The reply, or why there is none."""
    if plan.candidate.backend is not None:
        await session.root.set_context(backend=plan.candidate.backend)
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(_ask(session, (plan.task.table.prompt, *plan.task.table.follow_ups)))
        stopping = group.create_task(tally.stopped.wait())
        await asyncio.wait([asking, stopping], timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if asking.done():
            return asking.result(), None
        # Giving up the wait is what stops the task.
        asking.cancel()
    return None, "budget" if tally.stopped.is_set() else "timeout"


async def _ask(session: Session, messages: tuple[str, ...]) -> Reply:
    """The answer to the last message, or to the first one that failed."""
    first, *others = messages
    reply = await session.root.message(first)
    for message in others:
        if reply.error is not None:
            break
        reply = await session.root.message(message)
    return reply


def _failure(end: SessionEnd) -> tuple[Outcome, str] | None:
    """Why there is nothing to judge."""
    if end.stopped is not None:
        return end.stopped, ""
    failure = end.error if end.reply is None else end.reply.error
    if failure is None:
        return None
    return "budget" if "budget" in failure.code else _OUTCOMES.get(failure.code, "error"), failure.message


def _verdict(result: CheckResult, end: SessionEnd) -> tuple[Outcome, str]:
    match result.verdict:
        case "passed":
            return "passed", ""
        case "failed" if end.tally.refusals:
            return "refused", f"refused: {', '.join(end.tally.refusals[:5])}\n{result.output}"
        case "failed":
            return "wrong", result.output
        case _:
            return "check", f"the check {result.verdict}\n{result.output}"


def _record(plan: RunPlan, end: SessionEnd, started_at: str, outcome: Outcome, detail: str) -> RunRecord:
    tally = end.tally
    return RunRecord(
        task=plan.task.id,
        task_fingerprint=plan.task.fingerprint,
        kind=plan.task.table.kind,
        candidate=plan.candidate.name,
        candidate_fingerprint=plan.candidate_fingerprint,
        repeat=plan.repeat,
        outcome=outcome,
        detail=detail[-_SHOWN:],
        answer=end.facts.answer[:_SHOWN],
        input_tokens=tally.usage.input_tokens,
        cached_input_tokens=tally.usage.cached_input_tokens,
        output_tokens=tally.usage.output_tokens,
        cost_usd=tally.cost_usd,
        duration_s=round(end.duration_s, 3),
        requests=tally.requests,
        calls=len(tally.calls),
        session=end.session,
        started_at=started_at,
        confined=_is_blind(plan.candidate.backend or NATIVE, end),
    )


def _is_blind(backend: str, end: SessionEnd) -> bool:
    """Whether the candidate could not see the checks. The package of a plugin works in our own process."""
    return backend == NATIVE or (end.hidden and not backend.startswith(EXECUTOR_PREFIX))
