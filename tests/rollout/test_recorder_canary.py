"""HARDENING E1 at the store: a secret said in every place, under every policy, in every spelling."""

from __future__ import annotations

from msgspec.structs import replace

from tertulia.policy.redaction import Redactor
from tertulia.protocol.events import (
    AgentMessage,
    AgentReasoning,
    BackgroundEvent,
    ConversationOpened,
    ErrorEvent,
    EventData,
    ForeignEvent,
    TaskComplete,
    TaskStarted,
    TokenCount,
    TurnAborted,
    WarningEvent,
)
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import NO_USAGE, ImagePart, Reasoning, Summary, ToolOutput, UserMessage
from tertulia.protocol.records import (
    CanvasRecord,
    ItemsRecord,
    NoteRecord,
    QueuedInputRecord,
    RewriteRecord,
    SubmissionRecord,
    ToolOutputRecord,
)
from tertulia.protocol.storage import Full, HeadersOnly, NoStorage, StoragePolicy, Ttl
from tertulia.protocol.tool_events import (
    ApprovalRequest,
    ApprovalResolved,
    CanvasUpdated,
    ElicitationRequest,
    ExecCommandBegin,
    ExecCommandEnd,
    HookDecision,
    McpServerStatus,
    NetworkAccess,
    PatchApplyBegin,
    PatchApplyEnd,
    PlanStep,
    PlanUpdate,
    ToolCallBegin,
    ToolCallEnd,
    WebSearchEnd,
)
from tertulia.rollout.recorder import Recorder
from tests.events.scripted import StillClock
from tests.rollout.canary import CANARY, hidden, sightings
from tests.rollout.recording import (
    TASK,
    TRACE,
    A,
    ListStore,
    agreed,
    assistant,
    call,
    event,
    model_request,
    output,
    user,
)
from tests.tables import each_row

C = CANARY

TOLD: list[EventData] = [
    ConversationOpened(None, C, "model", "native"),
    TaskStarted("user", C),
    AgentReasoning(C, ItemId("r")),
    AgentMessage(C, ItemId("a1")),
    AgentMessage(C, ItemId(C)),
    TokenCount(NO_USAGE, 1, C),
    ToolCallBegin(CallId(C), C, {"path": C}),
    ToolCallEnd(CallId(C), C, False, C, False, 1),
    ExecCommandBegin(CallId(C), [C], f"/home/{C}"),
    ExecCommandEnd(CallId(C), 1, C, False, 1),
    PatchApplyBegin(CallId(C), [{"kind": C, "path": C, "move_to": C}], C),
    PatchApplyEnd(CallId(C), False, C),
    McpServerStatus("server", "failed", C),
    WebSearchEnd(CallId(C), C),
    NetworkAccess(C, 443, "refused", C, 1, 1, CallId(C)),
    HookDecision("guard", "before_tool", "refuse", 1, reason=C, context=C, call_id=CallId(C)),
    PlanUpdate([PlanStep(C, "pending")], C),
    ApprovalRequest("id", "exec", A, [A], C, C, [C], ["once"]),
    ApprovalResolved("id", "deny", None, C),
    ElicitationRequest("id", "server", C, {C: C}),
    CanvasUpdated(1, C, 1),
    BackgroundEvent(C, [{"field": C}]),
    WarningEvent(C, C),
    ErrorEvent(C, C),
    ForeignEvent(C, {C: [C]}),
    TurnAborted("interrupted", CallId(C)),
    TaskComplete("failed", C, NO_USAGE),
]


async def record(store: ListStore, policy: StoragePolicy, *, items: StoragePolicy | None = None) -> Recorder:
    """Everything that can be said, with the secret wherever somebody could have put it."""
    journal = Recorder(store, StillClock(5.0), Redactor().json)
    journal.keep(agreed(policy, instructions=C, cwd=f"/home/{C}", title=C))
    journal.keep(SubmissionRecord(A, TASK, TRACE, C))
    journal.keep(replace(model_request(f'[{{"description":"{C}"}}]'.encode()), override=C, output_schema=C))
    items_said = [
        user(C, sender=C, storage=items),
        UserMessage(ItemId(C), (ImagePart(C),), storage=items),
        Reasoning(ItemId(C), C, "chat", C, storage=items),
        replace(call(f'{{"path":"{C}"}}', id=C, name=C, storage=items), dialect=C, opaque=C),
    ]
    journal.keep(ItemsRecord(A, tuple(items_said)))
    journal.keep(ToolOutputRecord(A, output(C, id=C, storage=items)))
    journal.keep(
        ItemsRecord(A, (output(C, id=C, storage=items), ToolOutput(ItemId(C), CallId("x"), (), storage=items)))
    )
    journal.keep(QueuedInputRecord(A, user(C, id="q", storage=items)))
    journal.keep(
        ItemsRecord(
            A, (replace(assistant(C, storage=items), dialect=C, opaque=C), Reasoning(ItemId("r"), C, storage=items))
        )
    )
    journal.keep(RewriteRecord(A, (), 1, 0, Summary(ItemId(C), C, 1, storage=items)))
    journal.keep(CanvasRecord(A, 1, C, C, C, storage=items))
    if items is None:
        # Of its own conversation alone, and by that one's policy.
        journal.keep(NoteRecord(A, "bond", {C: C}))
    for seq, data in enumerate(TOLD, 1):
        journal.write(event(data, seq=seq), items)
    await journal.settle()
    return journal


@each_row("policy", [HeadersOnly(), NoStorage()])
async def test_where_no_text_may_be_stored_a_secret_is_nowhere(policy: StoragePolicy) -> None:
    """E1, S002-16, S002-17, S002-19"""
    store = ListStore()
    await record(store, policy)

    assert sightings(store.bytes) == []
    assert store.rows


@each_row("policy", [Full(), Ttl(60.0)])
async def test_where_texts_are_stored_the_search_finds_them(policy: StoragePolicy) -> None:
    """Or it would prove nothing."""
    store = ListStore()
    await record(store, policy)

    assert {"JSON", "a part"} <= set(sightings(store.bytes))


@each_row("items", [HeadersOnly(), NoStorage()])
async def test_what_comes_from_a_stricter_source_is_nowhere_in_a_full_record(items: StoragePolicy) -> None:
    """S002-19: the policy travels with every item and event."""
    store = ListStore()
    journal = Recorder(store, StillClock(5.0), Redactor().json)
    journal.keep(agreed(Full()))
    journal.keep(ItemsRecord(A, (call(id="c1"), output(C, storage=items), user(C, sender=C, storage=items))))
    journal.keep(ToolOutputRecord(A, output(C, storage=items)))
    journal.keep(QueuedInputRecord(A, user(C, storage=items)))
    journal.keep(RewriteRecord(A, (), 1, 0, Summary(ItemId("s"), C, 1, storage=items)))
    for seq, data in enumerate(TOLD, 1):
        journal.write(event(data, seq=seq), items)
    await journal.settle()

    assert sightings(store.bytes) == []


@each_row("policy", [HeadersOnly(), NoStorage()])
async def test_after_a_change_to_a_stricter_policy_a_secret_is_nowhere(policy: StoragePolicy) -> None:
    """E5"""
    store = ListStore()
    journal = await record(store, Full())
    assert sightings(store.bytes)

    journal.keep(agreed(policy, title=C))
    await journal.settle()

    assert sightings(store.bytes) == []


@each_row("data", hidden(), ids=lambda data: repr(data[:12]))
def test_the_search_finds_every_spelling(data: bytes) -> None:
    assert sightings(data)
