"""The gate before MCP servers: exact limits, turns for everybody, and nothing left behind."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tertulia.errors import LimitError
from tertulia.mcp.rate_limiter import FairLimiter, InFlight
from tertulia.policy.limits import NO_LIMITS, Limits
from tests.policy.virtual_time import LoopClock, run
from tests.tables import each_row
from tests.thorough import times


def limits(**some: Any) -> Limits:
    return replace(NO_LIMITS, **some)


class Start(NamedTuple):
    at: float
    conversation: str
    server: str
    number: int
    waited: float


class LimiterStage:
    """A limiter, calls that stay in it as long as they are told to, and a book of all that passed."""

    def __init__(
        self, ceiling: Limits = NO_LIMITS, own: Limits = NO_LIMITS, leaves_room: bool = False, **servers: int
    ) -> None:
        self.waits: list[tuple[str, float]] = []
        self.limiter = FairLimiter(
            LoopClock(), ceiling=ceiling, waited=lambda of, s: self.waits.append((of, s)), leaves_room=leaves_room
        )
        self.own = own
        self.servers = servers
        self.starts: list[Start] = []
        self.reasons: list[str] = []
        self.inside: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self._numbers = 0

    async def call(
        self,
        conversation: str,
        seconds: float = 1.0,
        server: str = "s",
        *,
        own: Limits | None = None,
        program: str = "",
    ) -> None:
        number, self._numbers = self._numbers, self._numbers + 1
        admission = self.limiter.admit(
            conversation,
            server,
            self.own if own is None else own,
            server_concurrency=self.servers.get(server),
            waits=self.reasons.append,
            program=program,
        )
        async with admission as waited:
            self.starts.append(Start(now(), conversation, server, number, waited))
            kinds = ("all", f"conversation {conversation}", f"server {server}")
            self.inside.update(kinds)
            self.most |= self.inside
            try:
                await asyncio.sleep(seconds)
            finally:
                self.inside.subtract(kinds)

    def begin(self, conversation: str, seconds: float = 1.0, server: str = "s", **more: Any) -> asyncio.Task[None]:
        return asyncio.create_task(self.call(conversation, seconds, server, **more))

    @property
    def order(self) -> str:
        return "".join(start.conversation for start in self.starts)


def now() -> float:
    return asyncio.get_running_loop().time()


async def all_of(tasks: Iterable[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks)


def most_in_a_window(starts: list[float], window: float) -> int:
    """Of all windows that begin with a start; half open, and rounding is not counted as a breach."""
    most = first = 0
    for last, at in enumerate(starts):
        while starts[first] <= at - window + 1e-6:
            first += 1
        most = max(most, last - first + 1)
    return most


# ── one limit after another ──────────────────────────────────────────────────────────────────────────────────


def test_without_limits_nobody_waits() -> None:
    async def scene() -> None:
        gate = LimiterStage()
        await all_of([gate.begin("a") for _ in range(100)])
        assert gate.most["all"] == 100
        assert {start.at for start in gate.starts} == {0.0}
        assert {start.waited for start in gate.starts} == {0.0}
        assert gate.reasons == gate.waits == []
        assert gate.limiter.is_idle

    run(scene())


@each_row(
    ("gate", "expected"),
    [
        (
            lambda: LimiterStage(ceiling=limits(mcp_concurrency=1)),
            "the session has 1 calls under way (mcp_concurrency)",
        ),
        (
            lambda: LimiterStage(ceiling=limits(mcp_rate_per_s=1)),
            "the session may start 1 calls in a second (mcp_rate_per_s)",
        ),
        (
            lambda: LimiterStage(own=limits(mcp_concurrency=1)),
            "this conversation has 1 calls under way (mcp_concurrency)",
        ),
        (
            lambda: LimiterStage(own=limits(mcp_rate_per_s=1)),
            "this conversation may start 1 calls in a second (mcp_rate_per_s)",
        ),
        (lambda: LimiterStage(s=1), "the server s has 1 calls under way (its concurrency is 1)"),
    ],
)
def test_who_waits_is_told_why_once_and_goes_on_when_there_is_room(
    gate: Callable[[], LimiterStage], expected: str
) -> None:
    """S002-39."""

    async def scene() -> None:
        stage = gate()
        first, second = stage.begin("a"), stage.begin("a")
        await first
        await second
        assert [start.at for start in stage.starts] == pytest.approx([0.0, 1.0])
        assert [start.waited for start in stage.starts] == pytest.approx([0.0, 1.0])
        assert stage.reasons == [expected]
        assert stage.waits == [("a", pytest.approx(1.0))]
        assert stage.limiter.is_idle

    run(scene())


@each_row(
    ("per_s", "at"),
    [
        (2, [0, 0, 1, 1, 2]),
        (2.9, [0, 0, 1, 1, 2]),
        (1, [0, 1, 2, 3, 4]),
        (0.25, [0, 4, 8, 12, 16]),
    ],
)
def test_a_rate_holds_in_every_second_and_is_never_rounded_up(per_s: float, at: list[float]) -> None:
    """S002-39."""

    async def scene() -> None:
        gate = LimiterStage(own=limits(mcp_rate_per_s=per_s))
        await all_of([gate.begin("a", 0.0) for _ in range(5)])
        assert [start.at for start in gate.starts] == pytest.approx(at)
        assert gate.limiter.is_idle

    run(scene())


def test_a_rate_that_was_narrowed_meanwhile_counts_what_started_before() -> None:
    async def scene() -> None:
        gate = LimiterStage()
        await all_of([gate.begin("a", 0.0, own=limits(mcp_rate_per_s=4)) for _ in range(4)])
        await gate.call("a", 0.0, own=limits(mcp_rate_per_s=2))
        assert [start.at for start in gate.starts] == pytest.approx([0, 0, 0, 0, 1])

    run(scene())


def test_the_earliest_moment_wakes_whoever_set_the_alarm_first() -> None:
    """One conversation waits for four seconds, another that comes later for one: that one is not late."""

    async def scene() -> None:
        gate = LimiterStage()
        slow, quick = limits(mcp_rate_per_s=0.25), limits(mcp_rate_per_s=1)
        work = [gate.begin("s", 0.0, own=slow), gate.begin("s", 0.0, own=slow)]
        work += [gate.begin("q", 0.0, own=quick), gate.begin("q", 0.0, own=quick)]
        await all_of(work)
        assert [(start.conversation, start.at) for start in gate.starts] == [
            ("s", 0), ("q", 0), ("q", pytest.approx(1)), ("s", pytest.approx(4)),
        ]  # fmt: skip
        assert gate.limiter.is_idle

    run(scene())


def test_the_rates_of_conversations_that_are_gone_are_forgotten() -> None:
    """E: thousands of conversations come and go, and what is kept is what still counts."""

    async def scene() -> None:
        gate = LimiterStage(own=limits(mcp_rate_per_s=5))
        for number in range(2_000):
            await gate.call(f"c{number}", 0.1)
        rates: dict[str, Any] = gate.limiter._rates  # pyright: ignore[reportPrivateUsage]
        assert len(rates) <= 12

    run(scene())


def test_only_a_call_whose_server_is_full_is_overtaken() -> None:
    """A slow server delays nobody who does not call it."""

    async def scene() -> None:
        gate = LimiterStage(slow=1)
        work = [gate.begin("a", 100.0, "slow"), gate.begin("a", 1.0, "slow"), gate.begin("a", 1.0, "quick")]
        await work[2]
        assert (now(), len(gate.limiter)) == (1.0, 1)
        await all_of(work)
        assert [start.number for start in gate.starts] == [0, 2, 1]

    run(scene())


def test_inside_a_conversation_a_wider_call_does_not_pass_a_narrower_one() -> None:
    async def scene() -> None:
        gate = LimiterStage()
        work = [gate.begin("a", 2.0), gate.begin("a", own=limits(mcp_concurrency=1)), gate.begin("a")]
        await all_of(work)
        assert [start.number for start in gate.starts] == [0, 1, 2]
        assert gate.reasons == [
            "this conversation has 1 calls under way (mcp_concurrency)",
            "others came before it",
        ]

    run(scene())


# ── giving up ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("ceiling", "own", "expected"),
    [
        (limits(mcp_concurrency=1), {}, "the session has 1 calls under way (mcp_concurrency)"),
        (NO_LIMITS, {"mcp_concurrency": 1}, "this conversation has 1 calls under way (mcp_concurrency)"),
        (NO_LIMITS, {"mcp_rate_per_s": 0.01}, "this conversation may start 0.01 calls in a second (mcp_rate_per_s)"),
    ],
)
def test_after_the_configured_time_it_is_refused_and_the_limit_named(
    ceiling: Limits, own: dict[str, Any], expected: str
) -> None:
    async def scene() -> None:
        gate = LimiterStage(ceiling, limits(mcp_wait_s=2.5, **own))
        first, second = gate.begin("a", 50.0), gate.begin("a")
        with pytest.raises(LimitError) as refused:
            await second
        assert refused.value.message == f"waited 2.5 s (mcp_wait_s) for an MCP server: {expected}"
        assert now() == pytest.approx(2.5)
        assert gate.waits == [("a", pytest.approx(2.5))]
        assert len(gate.limiter) == 0
        assert gate.inside["all"] == 1
        await first
        assert gate.limiter.is_idle
        assert len(gate.starts) == 1

    run(scene())


def test_the_turn_of_one_who_gave_up_in_the_same_moment_goes_to_the_next() -> None:
    async def scene() -> None:
        gate = LimiterStage(limits(mcp_concurrency=1))
        # The timer of the second was set before that of the first one's work, for the same moment.
        work = [gate.begin("a", 1.0), gate.begin("b", own=limits(mcp_wait_s=1.0)), gate.begin("c")]
        ended = await asyncio.gather(*work, return_exceptions=True)
        refused = [type(error) for error in ended]
        assert refused in ([type(None), LimitError, type(None)], [type(None), type(None), type(None)])
        assert gate.order == ("ac" if LimitError in refused else "abc")
        assert gate.limiter.is_idle

    run(scene())


def test_a_turn_that_was_given_is_not_taken_back_by_the_clock() -> None:
    async def scene() -> None:
        gate = LimiterStage(limits(mcp_concurrency=1))
        inside = gate.limiter.admit("a", "s", NO_LIMITS, server_concurrency=None, waits=print)
        await inside.__aenter__()
        waiting = gate.begin("b", own=limits(mcp_wait_s=1.0))

        def leave() -> None:
            with pytest.raises(StopIteration):
                inside.__aexit__(None, None, None).send(None)

        # So short before the time is up that the loop takes both for one moment.
        asyncio.get_running_loop().call_at(1.0 - 1e-12, leave)
        await waiting
        assert gate.order == "b"

    run(scene())


def test_a_cancelled_waiter_leaves_nothing_and_its_place_is_taken() -> None:
    async def scene() -> None:
        gate = LimiterStage(limits(mcp_concurrency=1))
        work = [gate.begin("a"), gate.begin("b"), gate.begin("c")]
        await asyncio.sleep(0)
        assert len(gate.limiter) == 2
        work[1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await work[1]
        assert len(gate.limiter) == 1
        await all_of([work[0], work[2]])
        assert gate.order == "ac"
        assert gate.limiter.is_idle

    run(scene())


def test_one_that_is_cancelled_and_has_not_noticed_gets_no_turn() -> None:
    async def scene() -> None:
        gate = LimiterStage(limits(mcp_concurrency=1))
        work = [gate.begin("a"), gate.begin("b"), gate.begin("c")]
        await asyncio.sleep(0)
        # The first leaves, and so gives a turn, before the second has come to know of its own end.
        work[0].cancel()
        work[1].cancel()
        await asyncio.gather(*work, return_exceptions=True)
        assert gate.order == "ac"
        assert gate.limiter.is_idle

    run(scene())


def test_a_turn_given_to_one_who_is_cancelled_then_goes_on_to_the_next() -> None:
    async def scene() -> None:
        gate = LimiterStage(limits(mcp_concurrency=1))
        inside = gate.limiter.admit("a", "s", NO_LIMITS, server_concurrency=None, waits=print)
        await inside.__aenter__()
        work = [gate.begin("b"), gate.begin("c")]
        await asyncio.sleep(0)
        await inside.__aexit__(None, None, None)
        # It has its turn already, and does not know.
        work[0].cancel()
        await asyncio.gather(*work, return_exceptions=True)
        assert gate.order == "c"
        assert gate.limiter.is_idle

    run(scene())


def test_an_error_in_telling_the_reason_leaves_nothing_either() -> None:
    async def scene() -> None:
        gate = LimiterStage(limits(mcp_concurrency=1, mcp_rate_per_s=1))
        first = gate.begin("a")
        await asyncio.sleep(0)

        def fail(reason: str) -> None:
            raise RuntimeError(reason)

        with pytest.raises(RuntimeError):
            async with gate.limiter.admit("b", "s", NO_LIMITS, server_concurrency=None, waits=fail):
                raise AssertionError("it came in")
        assert len(gate.limiter) == 0
        await first
        assert gate.limiter.is_idle

    run(scene())


def test_whoever_waits_for_a_second_and_leaves_takes_the_alarm_along() -> None:
    async def scene() -> None:
        gate = LimiterStage(own=limits(mcp_rate_per_s=0.01))
        await gate.call("a", 0.0)
        waiting = gate.begin("a")
        await asyncio.sleep(0)
        assert not gate.limiter.is_idle
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert gate.limiter.is_idle

    run(scene())


# ── fairness ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_conversations_take_turns_however_many_calls_one_has() -> None:
    """C17."""

    async def scene() -> None:
        gate = LimiterStage(limits(mcp_concurrency=1))
        await all_of([gate.begin(name) for name in "aaaaaaaabbbc"])
        assert gate.order == "aabcababaaaa"
        assert [start.number for start in gate.starts if start.conversation == "a"] == list(range(8))

    run(scene())


def test_any_number_of_calls_keeps_every_limit_and_shares_exactly() -> None:
    """C17, S002-39: ten thousand in `make torture`."""
    rounds = times(100, 20)

    async def scene() -> None:
        gate = LimiterStage(limits(mcp_concurrency=50, mcp_rate_per_s=1_000), limits(mcp_concurrency=5), s=30, t=40)
        servers = ("s", "t")
        names = [f"c{number}" for number in range(100)]
        await all_of([gate.begin(name, 0.02, servers[n % 2]) for n in range(rounds) for name in names])
        assert len(gate.starts) == rounds * 100
        assert gate.most["all"] == 50
        assert gate.most["server s"] <= 30
        assert gate.most["server t"] <= 40
        assert max(gate.most[f"conversation {name}"] for name in names) <= 5
        assert most_in_a_window([start.at for start in gate.starts], 1.0) <= 1_000
        for upto in (1_000, 2_500, 5_000, 9_999):
            shares = Counter(start.conversation for start in gate.starts[:upto])
            assert max(shares.values()) - min(shares[name] for name in names) <= 2
        assert gate.limiter.is_idle

    run(scene())


# ── whatever comes ───────────────────────────────────────────────────────────────────────────────────────────


class Plan(NamedTuple):
    conversation: str
    server: str
    comes: int
    stays: int
    cancelled: int | None


PLANS = st.lists(
    st.builds(
        Plan,
        st.sampled_from("abcd"),
        st.sampled_from("xyz"),
        st.integers(0, 8),
        st.integers(0, 6),
        st.none() | st.integers(0, 10),
    ),
    max_size=40,
)
CONCURRENCY = st.none() | st.integers(1, 4)
RATE = st.none() | st.sampled_from([0.5, 1.0, 2.0, 3.5, 10.0])


CEILINGS = st.builds(limits, mcp_concurrency=CONCURRENCY, mcp_rate_per_s=RATE)
OWN = st.builds(limits, mcp_concurrency=CONCURRENCY, mcp_rate_per_s=RATE, mcp_wait_s=st.sampled_from([None, 0.5, 3.0]))
SERVERS = st.fixed_dictionaries({"x": st.integers(1, 3)}, optional={"y": st.integers(1, 3)})


async def play(gate: LimiterStage, plans: list[Plan]) -> list[BaseException | None]:
    async def one(plan: Plan) -> None:
        await asyncio.sleep(plan.comes / 4)
        await gate.call(plan.conversation, plan.stays / 4, plan.server)

    work = [asyncio.create_task(one(plan)) for plan in plans]
    for plan, task in zip(plans, work, strict=True):
        if plan.cancelled is not None:
            asyncio.get_running_loop().call_at(plan.cancelled / 4, task.cancel)
    return await asyncio.gather(*work, return_exceptions=True)


def check_rate(starts: list[Start], per_s: float | None) -> None:
    if per_s is not None:
        assert most_in_a_window([start.at for start in starts], max(1.0, 1 / per_s)) <= max(1, int(per_s))


@settings(max_examples=200, deadline=None)
@given(PLANS, CEILINGS, OWN, SERVERS)
def test_no_limit_is_ever_exceeded_and_everybody_gets_through(
    plans: list[Plan], ceiling: Limits, own: Limits, servers: dict[str, int]
) -> None:
    """C17, S002-39: with calls that come, go and are cancelled at any moment."""

    async def scene() -> None:
        gate = LimiterStage(ceiling, own, **servers)
        ended = await play(gate, plans)
        assert gate.limiter.is_idle
        assert len(gate.limiter) == 0
        for plan, end in zip(plans, ended, strict=True):
            # Nobody starves: who was neither cancelled nor has a limit of waiting came through.
            assert end is None or plan.cancelled is not None or own.mcp_wait_s is not None
            assert end is None or isinstance(end, asyncio.CancelledError | LimitError)
        assert gate.most["all"] <= (ceiling.mcp_concurrency or 1_000)
        for name in "abcd":
            assert gate.most[f"conversation {name}"] <= (own.mcp_concurrency or 1_000)
            check_rate([start for start in gate.starts if start.conversation == name], own.mcp_rate_per_s)
        for name in "xyz":
            assert gate.most[f"server {name}"] <= servers.get(name, 1_000)
        check_rate(gate.starts, ceiling.mcp_rate_per_s)
        for line in {(start.conversation, start.server) for start in gate.starts}:
            served = [start for start in gate.starts if (start.conversation, start.server) == line]
            # Who comes in the very moment in which others are called up may be heard first; it was not served first.
            served.sort(key=lambda start: round(start.at, 6))
            for one, next_one in pairwise(served):
                assert one.number < next_one.number or one.at == pytest.approx(next_one.at), "first come, first served"

    run(scene())


@settings(max_examples=200, deadline=None)
@given(PLANS, st.integers(1, 3), RATE)
def test_between_two_turns_of_one_conversation_every_other_that_waits_has_one(
    plans: list[Plan], concurrency: int, rate: float | None
) -> None:
    """C17: round robin, whoever has how many calls."""

    async def scene() -> None:
        gate = LimiterStage(limits(mcp_concurrency=concurrency, mcp_rate_per_s=rate))
        await play(gate, plans)
        starts = gate.starts
        for later, start in enumerate(starts):
            earlier = max((n for n in range(later) if starts[n].conversation == start.conversation), default=None)
            if earlier is None or start.waited == 0:
                continue
            for other in starts[later + 1 :]:
                waiting_since = other.at - other.waited
                if other.conversation != start.conversation and waiting_since < starts[earlier].at:
                    between = {start.conversation for start in starts[earlier + 1 : later]}
                    assert other.conversation in between

    run(scene())


async def _greedy(most: int, calls: int, *others: str) -> tuple[str, list[str]]:
    """Who got in while nothing ends, where one conversation came first with that many calls."""
    stage = LimiterStage(leaves_room=True, s=most)
    hanging = [stage.begin("a", 1000.0) for _ in range(calls)]
    await asyncio.sleep(1)
    hanging += [stage.begin(other, 1000.0) for other in others]
    await asyncio.sleep(1)
    order = stage.order
    for call in hanging:
        call.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)
    assert stage.limiter.is_idle
    return order, stage.reasons


@each_row(("most", "order"), [(1, "a"), (2, "ab"), (8, "aaaabbc"), (9, "aaaaabbc")])
def test_a_conversation_leaves_room_at_a_server_for_those_who_come_later(most: int, order: str) -> None:
    """L3: calls that hang cannot be taken back, so a part of what is left always stays free."""
    assert run(_greedy(most, 20, "b", "b", "b", "c"))[0] == order


def test_who_waits_for_its_share_is_told_so() -> None:
    """L3."""
    _, reasons = run(_greedy(4, 3))
    assert reasons == ["2 of the 4 places of the server s are its own, and others get the rest"]


def test_programs_of_one_conversation_have_their_limits_each_for_itself() -> None:
    """L3: as they come over HTTP; their waiting counts as the conversation's."""

    async def scene() -> None:
        stage = LimiterStage(own=limits(mcp_concurrency=1))
        hanging = [stage.begin("a", 10.0, program=name) for name in ("x", "x", "y")]
        await asyncio.sleep(1)
        assert len(stage.starts) == 2
        await asyncio.gather(*hanging)
        assert stage.waits == [("a", 10.0)]

    run(scene())


# ---- servers that several sessions share: one count for all of them, and everybody gets a turn


class Street:
    """Two sessions, each with a limiter, before one server."""

    def __init__(self, most: int, wait_s: float | None = None) -> None:
        self.in_flight, self.most = InFlight(), most
        self.limits = Limits(mcp_wait_s=wait_s) if wait_s is not None else NO_LIMITS
        self.sessions = {name: FairLimiter(LoopClock(), ceiling=NO_LIMITS, shared=self.in_flight) for name in "ab"}
        self.order: list[str] = []
        self.reasons: list[str] = []
        self.inside: Counter[str] = Counter()
        self.peak = 0

    async def call(self, session: str, *, seconds: float = 1.0, shared: str | None = "key", server: str = "s") -> None:
        admission = self.sessions[session].admit(
            "c", server, self.limits, server_concurrency=self.most, waits=self.reasons.append, shared=shared
        )
        async with admission:
            self.order.append(session)
            self.inside[shared or session] += 1
            self.peak = max(self.peak, self.inside[shared or session])
            await asyncio.sleep(seconds)
            self.inside[shared or session] -= 1

    @property
    def is_idle(self) -> bool:
        return self.in_flight.is_idle and all(session.is_idle for session in self.sessions.values())


def test_the_limit_of_a_server_counts_the_calls_of_all_sessions() -> None:
    """S002-39, C17"""

    async def scenario() -> None:
        street = Street(2)
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(street.call(session) for session in "ab" * 4))
        assert street.peak == 2
        assert asyncio.get_running_loop().time() - began == pytest.approx(4.0)
        assert street.reasons[0] == "the server s has 2 calls under way (its concurrency is 2)"
        assert street.is_idle

    run(scenario())


def test_a_session_with_many_calls_does_not_keep_another_one_waiting() -> None:
    """C17: fair, whoever came first with however many."""

    async def scenario() -> None:
        street = Street(1)
        crowd = [asyncio.ensure_future(street.call("a")) for _ in range(10)]
        await asyncio.sleep(0.5)
        await asyncio.gather(*(street.call("b") for _ in range(3)))
        await asyncio.gather(*crowd)
        assert "".join(street.order[:7]) == "aababab"
        assert street.order.count("a") == 10
        assert street.is_idle

    run(scenario())


def test_servers_that_are_not_shared_are_counted_for_each_session() -> None:
    async def scenario() -> None:
        street = Street(1)
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(street.call(session, shared=None) for session in "ab"))
        await asyncio.gather(street.call("a", shared="one"), street.call("b", shared="other"))
        assert asyncio.get_running_loop().time() - began == pytest.approx(2.0)
        assert street.is_idle

    run(scenario())


def test_who_gives_up_or_is_cancelled_leaves_nothing_behind() -> None:
    """S000-44"""

    async def scenario() -> None:
        street = Street(1, wait_s=0.5)
        first = asyncio.ensure_future(street.call("a", seconds=10))
        await asyncio.sleep(0)
        cancelled = asyncio.ensure_future(street.call("b"))
        await asyncio.sleep(0.1)
        cancelled.cancel()
        with pytest.raises(LimitError, match="mcp_wait_s"):
            await street.call("b")
        assert not street.in_flight.is_idle
        await first
        assert street.is_idle
        assert street.order == ["a"]

    run(scenario())


def test_who_never_waited_is_not_put_at_the_end_of_a_line() -> None:
    """It comes in by an open door, and is not called when somebody leaves."""
    doors, heard = InFlight(), list[str]()
    doors.begin_call("s", lambda: heard.append("me"))
    doors.end_call("s")
    assert (heard, doors.under_way("s")) == ([], 0)
