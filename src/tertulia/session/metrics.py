"""The numbers of a session and of its conversations, as `metrics/get` answers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from msgspec.structs import asdict

from tertulia.events.metrics import CallTotals, MetricsTotals
from tertulia.protocol.events import AbortReason
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.items import Usage
from tertulia.session.answers import Answer
from tertulia.session.conversations import ROOT
from tertulia.session.parts import SessionParts

if TYPE_CHECKING:
    from tertulia.policy.session_budget import SessionSpending


class TaskCounts(Answer, frozen=True):
    """Tasks by how they ended, and the share of those that did not end well."""

    started: int
    completed: int
    failed: int
    aborted: dict[AbortReason, int]
    cancel_rate: float
    """Of the tasks that have ended, those that were stopped. One that goes on after a handoff has not ended."""
    failure_rate: float
    """Likewise those that failed, ran out of time or hit a limit."""


class CallCounts(Answer, frozen=True):
    """Calls that have ended, and how long they took."""

    calls: int
    failures: int
    duration_ms: int
    mean_ms: int
    max_ms: int


class Counts(Answer, frozen=True, kw_only=True):
    """The numbers of a session, or of a conversation."""

    tasks: TaskCounts
    model_requests: int
    usage: Usage
    cost_usd: float | None
    tool_calls: int
    tools: dict[str, CallCounts]
    """By name; calls of a tool that does not exist are under `other`."""
    mcp: CallCounts
    mcp_waits: int
    """Calls that had to wait for a limit, and how long in all; some may have waited in vain."""
    mcp_waited_ms: int
    compactions: int
    network: dict[str, int]
    """Connections of commands to hosts by name, by verdict: `allowed`, `refused`, `failed`."""
    network_bytes: int


class ConversationCounts(Counts, frozen=True, kw_only=True):
    """The numbers of one conversation."""

    conversation_id: ConversationId
    closed: bool


class BudgetCounts(Answer, frozen=True):
    """The budget of a session, and what of it is used, also before a resume. Null: there is no such limit."""

    tokens: int | None
    usd: float | None
    used_tokens: int
    used_usd: float


class MetricsAnswer(Answer, frozen=True, omit_defaults=True):
    """`metrics/get`: the numbers of a session and of its conversations."""

    session: Counts
    conversations: list[ConversationCounts]
    budget: BudgetCounts | None = None
    """Left out where the session has none."""


def describe_metrics(parts: SessionParts, conversation_id: str | None) -> MetricsAnswer:
    """`metrics/get`. A closed conversation can be named by its id as long as its numbers are kept."""
    metrics = parts.bus.metrics
    if conversation_id is None:
        listed = [_of_conversation(*entry) for entry in metrics.conversations()]
    else:
        of = parts.conversations.root.id if conversation_id == ROOT else ConversationId(conversation_id)
        tally = metrics.of(of)
        if tally is None:
            parts.conversations.find(conversation_id)  # NotFound or Closed
            tally = MetricsTotals()
        listed = [_of_conversation(of, tally, metrics.is_closed(of))]
    return MetricsAnswer(_counts(metrics.session), listed, _budget_counts(parts.spending))


def _budget_counts(spending: SessionSpending | None) -> BudgetCounts | None:
    if spending is None:
        return None
    budget = spending.budget
    return BudgetCounts(budget.tokens, budget.usd, spending.tokens, spending.usd)


def _of_conversation(of: ConversationId, tally: MetricsTotals, closed: bool) -> ConversationCounts:
    return ConversationCounts(conversation_id=of, closed=closed, **asdict(_counts(tally)))


def _counts(tally: MetricsTotals) -> Counts:
    return Counts(
        tasks=_task_counts(tally),
        model_requests=tally.requests,
        usage=tally.usage,
        cost_usd=tally.cost_usd,
        tool_calls=sum(calls.calls for calls in tally.tools.values()),
        tools={name: _call_counts(calls) for name, calls in tally.tools.items()},
        mcp=_call_counts(tally.mcp),
        mcp_waits=tally.mcp_waits,
        mcp_waited_ms=tally.mcp_waited_ms,
        compactions=tally.compactions,
        network=dict(tally.network),
        network_bytes=tally.network_bytes,
    )


def _task_counts(tally: MetricsTotals) -> TaskCounts:
    aborted: dict[AbortReason, int] = {reason: tally.aborted.get(reason, 0) for reason in get_args(AbortReason)}
    # As in a reply's status: a task that timed out counts as failed, one that was shut down as interrupted.
    stopped = aborted["interrupted"] + aborted["shutdown"] + aborted["crash"]
    failed = tally.failed + aborted["timeout"] + aborted["limit"]
    ended = tally.completed + stopped + failed or 1
    return TaskCounts(tally.started, tally.completed, tally.failed, aborted, stopped / ended, failed / ended)


def _call_counts(calls: CallTotals) -> CallCounts:
    mean_ms = round(calls.duration_ms / (calls.calls or 1))
    return CallCounts(calls.calls, calls.failures, calls.duration_ms, mean_ms, calls.max_ms)
