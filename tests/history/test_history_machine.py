"""A history under everything that can happen to it, in any order, against a naive telling of the same."""

from __future__ import annotations

import hashlib
from collections.abc import Coroutine, Sequence

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tertulia.errors import InternalError
from tertulia.history.compaction import Compaction, compact, trim
from tertulia.history.sanitiser import closing_outputs
from tertulia.history.segment import is_message, is_user_request
from tertulia.history.store import HistoryLimits, HistoryStore
from tertulia.history.view import HistoryView
from tertulia.protocol.items import Item, Reasoning, Summary, ToolCall, ToolOutput
from tests.history.items import CountingEncoder, call, model, output, seed, thought, user
from tests.thorough import examples

CALL_IDS = "abcd"
LIMITS = [
    HistoryLimits(),
    HistoryLimits(max_items=7),
    HistoryLimits(max_tokens=30),
    HistoryLimits(max_items=12, max_bytes=300),
]
TEXTS = st.sampled_from(["", "hi", "é\u2028\x00", "one sentence. " * 4, "x" * 300])


def finished(coroutine: Coroutine[None, None, Compaction]) -> Compaction:
    """Run what never really waits."""
    with pytest.raises(StopIteration) as stopped:
        coroutine.send(None)
    return stopped.value.value


class Meddling:
    """A summariser during whose work something happens to the history."""

    def __init__(self, machine: HistoryMachine, open_terms: str) -> None:
        self.machine = machine
        self.open_terms = open_terms

    async def summarise(self, items: Sequence[Item], budget_tokens: int) -> str:
        if self.open_terms == "append":
            self.machine.append([user("meanwhile")])
        elif self.open_terms == "trim":
            self.machine.trimmed(summarise=False)
        return "s" * budget_tokens


class HistoryMachine(RuleBasedStateMachine):
    """`told` is what the history must hold; a rewrite may only change it in the ways that `rewritten` allows."""

    @initialize(limits=st.sampled_from(LIMITS), seeds=st.integers(0, 2))
    def begin(self, limits: HistoryLimits, seeds: int) -> None:
        self.told: list[Item] = [seed() for _ in range(seeds)]
        self.pinned: list[Item] = list(self.told)
        self.seeds = list(self.told)
        self.open: list[str] = []
        self.seen: list[tuple[HistoryView, list[Item], bytes]] = []
        self.encoders = [CountingEncoder("one"), CountingEncoder("two", silent=[Reasoning])]
        self.store = HistoryStore(limits, self.told)

    # ---- growing

    def append(self, items: Sequence[Item], *, pinned: bool = False) -> None:
        self.store.append(items, pinned=pinned)
        self.told += items
        if pinned:
            # Said anew: what was pinned for it before is no longer, but for the seeds.
            self.pinned = [item for item in self.pinned if item in self.seeds] + list(items)

    @rule(text=TEXTS, answered=st.booleans(), together=st.booleans())
    def conversation(self, text: str, answered: bool, together: bool) -> None:
        question, answer = [user(text)], [thought(), model(text)] if answered else []
        for turn in [[*question, *answer]] if together else [question, answer]:
            self.append(turn)

    @rule(ids=st.sets(st.sampled_from(CALL_IDS), min_size=1), data=st.data(), with_question=st.booleans())
    def work(self, ids: set[str], data: st.DataObject, with_question: bool) -> None:
        """A turn of calls, some of them answered at once."""
        calls = sorted(ids - set(self.open))
        done = data.draw(st.lists(st.sampled_from(calls), unique=True)) if calls else []
        items: list[Item] = [user()] if with_question else []
        self.append([*items, *map(call, calls), *map(output, done)])
        self.open += [call_id for call_id in calls if call_id not in done]

    @precondition(lambda self: self.open)
    @rule(data=st.data(), again=st.booleans())
    def answer(self, data: st.DataObject, again: bool) -> None:
        """Outputs of open calls, perhaps with a new call under an id that just became free."""
        done = data.draw(st.lists(st.sampled_from(self.open), unique=True, min_size=1))
        self.append([*map(output, done), *([call(done[0])] if again else [])])
        self.open = [call_id for call_id in self.open if call_id not in done] + ([done[0]] if again else [])

    @rule()
    def close(self) -> None:
        closed = closing_outputs(self.store.open_call_items(), "interrupted")
        assert [item.call_id for item in closed] == self.open
        self.store.append(closed)
        self.told += closed
        self.open = []

    @rule()
    def pin(self) -> None:
        self.append([seed("<rules/>")], pinned=True)

    @rule(call_id=st.sampled_from(CALL_IDS))
    def refuse(self, call_id: str) -> None:
        """What would break the pairing is refused; the invariants see that nothing changed."""
        broken = [call(call_id), output(call_id)] if call_id in self.open else [user(), output(call_id)]
        with pytest.raises(InternalError):
            self.store.append(broken)

    # ---- shrinking

    @rule(summarise=st.booleans())
    def trimmed(self, *, summarise: bool) -> None:
        request = self.newest_request()
        was_over, revision = self.store.over_limit(), self.store.revision
        done = trim(self.store, summarise=summarise)
        assert was_over or not done.compacted
        assert done.compacted == (self.store.revision > revision)
        assert self.store.over_limit() == (was_over and done.reason is not None)
        self.rewritten(done, request)

    @rule(tokens=st.integers(0, 60), open_terms=st.sampled_from(["nothing", "append", "trim"]))
    def compacted(self, tokens: int, open_terms: str) -> None:
        request = self.newest_request()
        revision = self.store.revision
        done = finished(compact(self.store, Meddling(self, open_terms), target_tokens=tokens))
        assert done.after_tokens < done.before_tokens if done.compacted else done.reason
        assert done.compacted or open_terms == "trim" or self.store.revision == revision
        self.rewritten(done, request)

    def newest_request(self) -> Item | None:
        return next(filter(is_user_request, reversed(self.told)), None)

    def rewritten(self, done: Compaction, request: Item | None) -> None:
        """Check what went and take over what is left. `request` was the newest when the rewrite was planned."""
        snapshot = list(self.store.snapshot())
        held = {id(item) for item in snapshot}
        gone = [item for item in self.told if id(item) not in held]
        stayed = [item for item in self.told if id(item) in held]
        assert without_summaries(snapshot) == without_summaries(stayed)
        assert sum(isinstance(item, Summary) for item in snapshot) <= 1
        assert len(without_summaries(gone)) == done.removed_items
        if gone:
            self.check_gone(gone, request)
        self.told = snapshot

    def check_gone(self, gone: list[Item], request: Item | None) -> None:
        """Oldest first; what is pinned, the newest request, the newest turn and open calls stay."""
        spared = [segment.items for segment in self.store.snapshot().segments() if request in segment.items]
        exempt = {id(item) for items in [self.pinned, *spared] for item in items}
        ordinary = [item for item in self.told if id(item) not in exempt]
        assert ordinary[: len(gone)] == gone
        assert request not in gone
        assert self.newest_request() not in gone
        assert self.told[-1] not in gone
        newest = {item.call_id: item for item in self.told if isinstance(item, ToolCall)}
        assert not any(newest[call_id] in gone for call_id in self.open)

    # ---- reading

    @rule()
    def look(self) -> None:
        view = self.store.snapshot()
        self.seen = [*self.seen[-3:], (view, list(view), view.totals.digest)]

    @rule(which=st.integers(0, 1))
    def encode(self, which: int) -> None:
        encoder = self.encoders[which]
        chunks = self.store.encoded(encoder)
        assert all(chunks)
        assert b",".join(chunks) == encoder.spell(self.told)

    # ---- forking

    @rule(data=st.data(), go_on_there=st.booleans())
    def fork(self, data: st.DataObject, go_on_there: bool) -> None:
        rounds = sum(map(is_user_request, self.told))
        places = [None, *(item.id for item in self.told), *range(1, rounds + 1)]
        at = data.draw(st.sampled_from(places))
        forked = self.store.fork(at)
        items = list(forked.snapshot())
        assert items == self.told[: len(items)]
        assert forked.open_calls == ()
        assert at is not None or self.open or len(items) >= len(self.told) - 1
        if isinstance(at, int):
            assert sum(map(is_user_request, items)) <= at
        if go_on_there:
            self.store, self.told, self.open = forked, items, []
            self.pinned = [item for item in self.pinned if item in items]

    # ---- what always holds

    @invariant()
    def it_holds_what_was_told(self) -> None:
        held = list(self.store.snapshot())
        assert len(held) == len(self.told)
        assert all(ours is theirs for ours, theirs in zip(held, self.told, strict=True))

    @invariant()
    def calls_and_outputs_are_paired_both_ways(self) -> None:
        waiting: list[str] = []
        for item in self.store.snapshot():
            if isinstance(item, ToolCall):
                assert item.call_id not in waiting
                waiting.append(item.call_id)
            elif isinstance(item, ToolOutput):
                waiting.remove(item.call_id)
        assert list(self.store.open_calls) == waiting == self.open

    @invariant()
    def counts_and_digest_are_those_of_the_items(self) -> None:
        store, digest = self.store, b""
        for segment in store.snapshot().segments():
            own = hashlib.sha256(msgspec.json.encode(segment.items)).digest()
            digest = hashlib.sha256(digest + own).digest()
        assert store.totals.digest == digest
        size = sum(len(text.encode()) for item in self.told for text in texts_of(item))
        assert (store.totals.item_count, store.totals.byte_count) == (len(self.told), size)
        assert store.totals.message_count == sum(map(is_message, self.told)) == len(store.messages())
        assert store.approx_tokens == -(-size // 4)

    @invariant()
    def what_was_seen_has_not_changed(self) -> None:
        for view, items, digest in self.seen:
            assert all(ours is theirs for ours, theirs in zip(view, items, strict=True))
            assert view.totals.digest == digest


def without_summaries(items: list[Item]) -> list[Item]:
    return [item for item in items if not isinstance(item, Summary)]


def texts_of(item: Item) -> list[str]:
    match item:
        case ToolCall():
            return [item.name, item.arguments]
        case _:
            return [item.text]


HistoryMachine.TestCase.settings = settings(
    max_examples=examples(2_000),
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


@pytest.mark.slow
@pytest.mark.timeout(300)
class TestHistory(HistoryMachine.TestCase):
    """S002-21..28, X-34"""
