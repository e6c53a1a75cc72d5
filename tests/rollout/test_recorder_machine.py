"""A recorder, a store that fails when it likes, and terms that change all the time: what must hold in every order."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tertulia.errors import StorageError
from tertulia.protocol.events import BackgroundEvent
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.records import ItemsRecord
from tertulia.protocol.storage import Full, HeadersOnly, NoStorage, StoragePolicy, Ttl, strictest
from tertulia.rollout.format.row_reader import read_rows
from tertulia.rollout.recorder import Recorder
from tertulia.rollout.store import allows_body
from tests.events.scripted import StillClock, ticks
from tests.rollout.recording import A, B, ListStore, agreed, event, unredacted, user

_POLICIES: list[StoragePolicy] = [Full(), Ttl(60.0), HeadersOnly(), NoStorage()]
_CONVERSATIONS = st.sampled_from([A, B])
_STEPS = st.one_of(
    st.tuples(st.just("agree"), _CONVERSATIONS, st.sampled_from(_POLICIES)),
    st.tuples(st.just("say"), _CONVERSATIONS, st.none() | st.sampled_from(_POLICIES)),
    st.tuples(st.just("write"), _CONVERSATIONS, st.none() | st.sampled_from(_POLICIES)),
    st.tuples(st.just("commit"), st.none(), st.none()),
    st.tuples(st.just("work"), st.none(), st.none() | st.just(1)),
    st.tuples(st.just("fail"), st.none(), st.booleans()),
)


class Stage:
    """A recorder beside a model of what may be stored of each text."""

    def __init__(self) -> None:
        self.store = ListStore(at_once=False)
        self.journal = Recorder(self.store, StillClock(5.0), unredacted)
        self.agreed: dict[ConversationId, StoragePolicy] = {}
        self.allowed: dict[str, tuple[ConversationId, StoragePolicy]] = {}
        self.said: list[str] = []
        self.futures: list[tuple[str, asyncio.Future[None] | None]] = []

    async def take(self, number: int, step: str, conversation: ConversationId, value: Any) -> None:
        text = f"CANARY-{number}-"
        match step:
            case "agree":
                self.agree(conversation, value)
            case "say":
                self.note(text, conversation, value)
                self.said.append(text)
                self.journal.keep(ItemsRecord(conversation, (user(text, id=text, storage=value),)))
            case "write":
                self.note(text, conversation, value)
                written = self.journal.write(event(BackgroundEvent(text), conversation, number), value)
                self.futures.append((text, written))
            case "commit":
                self.journal.hurry()
                await ticks()
            case "work":
                self.store.work(value)
            case _:
                self.store.error = StorageError("no room") if value else None

    def agree(self, conversation: ConversationId, storage: StoragePolicy) -> None:
        self.agreed[conversation] = storage
        for text, (state, policy) in self.allowed.items():
            if state == conversation:
                self.allowed[text] = (state, strictest(policy, storage))
        self.journal.keep(agreed(storage, conversation))

    def note(self, text: str, conversation: ConversationId, policy: StoragePolicy | None) -> None:
        own = self.agreed.get(conversation, NoStorage())
        self.allowed[text] = (conversation, strictest(own, policy or own))

    async def recover(self) -> None:
        """There is room again."""
        self.store.error = None
        for _ in range(2):
            settling = asyncio.ensure_future(self.journal.settle())
            await ticks()
            self.store.work()
            await asyncio.wait([settling])
        assert settling.exception() is None

    def may_be_stored(self, text: str) -> bool:
        return allows_body(self.allowed[text][1])

    def check(self) -> None:
        content = self.store.bytes.decode()
        assert not [text for text in self.allowed if text in content and not self.may_be_stored(text)]
        for text, written in self.futures:
            failed = written is not None and written.exception() is not None
            assert (text in content) is (self.may_be_stored(text) and not failed)
        texts = [text for text in self.said if self.may_be_stored(text)]
        assert texts == sorted((text for text in self.said if text in content), key=content.index)
        numbers = [row.n for row in self.store.rows]
        assert numbers == sorted(set(numbers))
        assert not any(line.damaged for line in read_rows(self.store.stored))


@given(st.lists(_STEPS, max_size=30))
@settings(max_examples=150)
async def test_whatever_fails_in_whatever_order_the_promises_hold(steps: list[tuple[str, Any, Any]]) -> None:
    """S002-19, HARDENING E5, F5: order, acknowledgement, and no text beyond its policy."""
    stage = Stage()
    for number, (step, conversation, value) in enumerate(steps):
        await stage.take(number, step, conversation, value)
    await stage.recover()

    stage.check()
