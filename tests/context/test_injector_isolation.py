"""A provider that misbehaves costs its own answer and nobody else's."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import threading
from typing import Any

import pytest

from tertulia.context.injector import SessionContextInjector
from tertulia.context.tokens import SessionTokenStore
from tertulia.errors import NotFoundError
from tests.deadlines import HANG_S

SECRET = "hunter2-is-my-password"
KEY = "sk-" + "ant-api03-" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9c"


TOOL = {"name": "x", "description": "", "rpcMethod": "x.y", "scope": "all"}
CYCLE: dict[str, Any] = {"type": "object", "properties": {}}
CYCLE["properties"]["again"] = CYCLE
HUGE = {f"p{number}": "x" * 1000 for number in range(2000)}


class Good:
    name = "good"

    def get_system_context(self, agent_name: str, meta: Any) -> str:
        return "good"


def provider(**methods: Any) -> Any:
    return type("Bad", (), {"name": "bad", **{name: staticmethod(method) for name, method in methods.items()}})()


def raising(error: BaseException) -> Any:
    def method(agent_name: str, meta: Any) -> Any:
        raise error

    return method


def araising(error: BaseException) -> Any:
    async def method(agent_name: str, meta: Any) -> Any:
        raise error

    return method


@pytest.fixture
def injector(bus: Any) -> SessionContextInjector:
    injector = SessionContextInjector(timeout_s=30)
    injector.set_event_bus(bus)
    injector.set_token_store(SessionTokenStore())
    return injector


def endless(agent_name: str, meta: Any) -> Any:
    return endless(agent_name, meta)


class Exploding:
    name = "bad"

    @property
    def get_tools(self) -> Any:
        raise ValueError(SECRET)


BAD = {
    "raises": provider(get_tools=raising(ValueError(SECRET))),
    "raises later": provider(get_tools=araising(ValueError(SECRET))),
    "raises an error of ours": provider(get_tools=raising(NotFoundError("the bell is gone"))),
    "raises StopIteration": provider(get_tools=raising(StopIteration())),
    "ends its thread": provider(get_tools=raising(SystemExit(3))),
    "ends the process": provider(get_tools=araising(SystemExit(3))),
    "raises what is no exception": provider(get_tools=araising(BaseException(SECRET))),
    "runs out of time by itself": provider(get_tools=araising(TimeoutError())),
    "cancels itself": provider(get_tools=araising(asyncio.CancelledError())),
    "recurses": provider(get_tools=endless),
    "is no function": type("Bad", (), {"name": "bad", "get_tools": 5})(),
    "takes nothing": provider(get_tools=lambda: None),
    "raises when it is looked at": Exploding(),
    "returns a text": provider(get_tools=lambda *arguments: "tools"),
    "returns nonsense": provider(get_tools=lambda *arguments: [object()]),
    "returns an unknown scope": provider(get_tools=lambda *arguments: [{**TOOL, "scope": "root"}]),
    "returns a server without a command": provider(get_mcp_servers=lambda *arguments: [{"name": "fs"}]),
    "returns a cycle": provider(get_tools=lambda *arguments: [{**TOOL, "parameters": CYCLE}]),
    "returns megabytes of parameters": provider(get_tools=lambda *arguments: [{**TOOL, "parameters": HUGE}]),
    "returns bytes": provider(get_system_context=lambda *arguments: b"text"),
    "returns a lone surrogate": provider(get_system_context=lambda *arguments: "\ud800"),
}


@pytest.mark.parametrize("bad", BAD)
async def test_what_goes_wrong_is_left_out_and_said(
    injector: Any, bus: Any, meta: Any, caplog: pytest.LogCaptureFixture, bad: str
) -> None:
    """S001-27, X-45, X-47, HARDENING H6, E6."""
    injector.register(BAD[bad])
    injector.register(Good())
    with caplog.at_level(logging.DEBUG, "tertulia"):
        context = await injector.prepare("ada", meta())
    assert context.system_context_additions == ["good"]
    assert (context.tools, context.mcp_servers) == ([], [])
    (warning,) = context.warnings
    assert "provider 'bad'" in warning
    assert bus.types == ["session:preparing", "warning", "session:context-ready"]
    assert bus.events[1].message == warning
    assert warning in caplog.text
    assert SECRET not in caplog.text + warning


async def test_the_other_methods_of_the_same_provider_count(injector: Any, meta: Any) -> None:
    """S001-27."""
    injector.register(
        provider(get_tools=raising(ValueError()), get_system_context=lambda *arguments: "still here"),
    )
    assert (await injector.prepare("ada", meta())).system_context_additions == ["still here"]


async def test_no_key_gets_into_a_warning_by_way_of_an_error_of_ours(injector: Any, meta: Any) -> None:
    """HARDENING E6."""
    injector.register(provider(get_tools=raising(NotFoundError(f"no bell for {KEY}" + "x" * 5000))))
    (warning,) = (await injector.prepare("ada", meta())).warnings
    assert KEY not in warning
    assert "no bell for" in warning
    assert len(warning) < 1000


@pytest.mark.parametrize("kind", ["blocks its thread", "waits for ever"])
async def test_a_provider_that_hangs_is_given_up(injector: Any, bus: Any, meta: Any, kind: str) -> None:
    """S001-27: the loop goes on meanwhile, and the rest is asked."""
    release = threading.Event()

    def blocks(*arguments: Any) -> None:
        release.wait(HANG_S)

    async def waits(*arguments: Any) -> None:
        await asyncio.get_running_loop().create_future()

    hurried = SessionContextInjector(timeout_s=0.5)
    hurried.set_event_bus(bus)
    hurried.register(
        provider(
            get_mcp_servers=lambda *arguments: [{"name": "fs", "command": "run"}],
            get_tools=blocks if kind == "blocks its thread" else waits,
            get_system_context=lambda *arguments: "too late",
        )
    )
    hurried.register(Good())
    try:
        context = await hurried.prepare("ada", meta())
    finally:
        release.set()
    assert context.system_context_additions == ["good"]
    assert [server.name for server in context.mcp_servers] == ["fs"], "what it had said by then counts"
    assert context.warnings == ("provider 'bad' did not answer within 0.5 s; what is missing is left out",)
    assert [event.code for event in bus.events if event.type == "warning"] == ["provider_timeout"]


async def test_a_provider_that_swallows_every_cancellation_is_given_up_too(bus: Any, meta: Any) -> None:
    """S001-27, HARDENING H6: in each of its methods, and what it said in time counts."""

    async def deaf(*arguments: Any) -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.get_running_loop().create_future()

    async def late(*arguments: Any) -> list[Any]:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()
        return [{"name": "fs", "command": "run"}]

    hurried = SessionContextInjector(timeout_s=0.5)
    hurried.set_event_bus(bus)
    hurried.register(provider())
    hurried.register(Good())
    for methods in ({"get_mcp_servers": late, "get_tools": deaf}, {"get_system_context": deaf}):
        hurried.register(provider(**methods))
        async with asyncio.timeout(HANG_S):
            context = await hurried.prepare("ada", meta())
        assert [server.name for server in context.mcp_servers] == (["fs"] if "get_mcp_servers" in methods else [])
        assert context.system_context_additions == ["good"]
        assert context.warnings == ("provider 'bad' did not answer within 0.5 s; what is missing is left out",)


async def test_one_that_was_late_is_given_less_time_until_it_is_not(meta: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """S001-27: it is asked before every task, and nobody waits as long for it again and again."""
    monkeypatch.setattr("tertulia.context.injector.RETRY_AFTER_S", 0.1)
    outcomes: list[bool] = []

    async def late(*arguments: Any) -> str:
        if not outcomes:
            await asyncio.get_running_loop().create_future()
        return "here"

    injector = SessionContextInjector(timeout_s=0.5)
    injector.register(provider(get_system_context=late))
    for patience in ("0.5", "0.1", "0.1"):
        (warning,) = (await injector.prepare("ada", meta())).warnings
        assert f"within {patience} s" in warning
    outcomes.append(True)
    assert (await injector.prepare("ada", meta())).system_context_additions == ["here"]
    outcomes.clear()
    (warning,) = (await injector.prepare("ada", meta())).warnings
    assert "within 0.5 s" in warning


async def test_who_is_cancelled_while_a_provider_swallows_it_is_cancelled_all_the_same(meta: Any) -> None:
    """X-45, HARDENING H1: and no token is left."""
    arrived = asyncio.Event()
    store = SessionTokenStore()

    async def swallows(*arguments: Any) -> str:
        arrived.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()
        return "here I am"

    injector = SessionContextInjector(timeout_s=30)
    injector.set_token_store(store)
    injector.register(provider(get_system_context=swallows))
    task = asyncio.create_task(injector.prepare("ada", meta()))
    async with asyncio.timeout(HANG_S):
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert store.size == 0


async def test_a_list_that_does_not_end_is_cut(injector: Any, meta: Any) -> None:
    """S001-27: a list is what calls itself one."""

    class Endless(list[Any]):
        def __iter__(self) -> Any:
            return itertools.repeat(TOOL)

    injector.register(provider(get_tools=lambda *arguments: Endless()))
    assert [tool.name for tool in (await injector.prepare("ada", meta())).tools] == ["x"]


async def test_no_token_of_another_gets_into_a_warning(injector: Any, bus: Any, meta: Any) -> None:
    """S001-45: in whatever form an error quotes it."""
    store = SessionTokenStore()
    injector.set_token_store(store)
    token = store.generate("eva", "s1")
    injector.register(provider(get_tools=raising(NotFoundError(f"nobody has '{token}' or \"{token}\" or {token}"))))
    (warning,) = (await injector.prepare("ada", meta())).warnings
    assert token[:8] in warning
    assert token[:9] not in warning
    assert token[8:17] not in warning
    assert bus.events[1].message == warning


async def test_a_provider_that_never_comes_back_costs_one_thread_and_not_one_each_time(meta: Any) -> None:
    """S001-27: threads are shared with the tools."""
    release, ended = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    counts: list[int] = []

    def blocks(*arguments: Any) -> str:
        counts.append(1)
        release.wait(HANG_S)
        loop.call_soon_threadsafe(ended.set)
        return "done"

    hurried = SessionContextInjector(timeout_s=0.5)
    hurried.register(provider(get_system_context=blocks))
    try:
        await hurried.prepare("ada", meta())
        for _ in range(3):
            (warning,) = (await hurried.prepare("ada", meta())).warnings
            assert warning == "provider 'bad' is still busy with an earlier question"
        assert len(counts) == 1
    finally:
        release.set()
    await asyncio.wait_for(ended.wait(), HANG_S)
    for _ in range(10_000):
        if (await hurried.prepare("ada", meta())).system_context_additions:
            break
        # Nothing in it waits while the provider is busy: let the loop hear that the thread has ended.
        await asyncio.sleep(0)
    assert len(counts) == 2


async def test_who_is_cancelled_while_a_provider_thinks_is_cancelled(injector: Any, meta: Any) -> None:
    """S001-44: and leaves no token behind."""
    store = SessionTokenStore()
    injector.set_token_store(store)
    thinking = asyncio.Event()

    async def waits(*arguments: Any) -> None:
        thinking.set()
        await asyncio.get_running_loop().create_future()

    injector.register(provider(get_tools=waits))
    task = asyncio.create_task(injector.prepare("ada", meta()))
    await asyncio.wait_for(thinking.wait(), HANG_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert store.size == 0


async def test_providers_may_come_and_go_while_one_is_asked(injector: Any, meta: Any) -> None:
    async def meddles(*arguments: Any) -> str:
        injector.unregister("good")
        injector.unregister("bad")
        return "meddled"

    injector.register(provider(get_system_context=meddles))
    injector.register(Good())
    assert (await injector.prepare("ada", meta())).system_context_additions == ["meddled", "good"]
    assert injector.list_providers() == []


def test_those_written_by_others_are_registered_as_far_as_they_can_be_made(
    injector: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Issue 9: third-party providers; HARDENING H6."""

    def fails() -> object:
        raise ImportError(SECRET)

    def leaves() -> object:
        raise SystemExit(SECRET)

    problems = injector.register_each([("one", fails), ("two", Good), ("three", leaves), ("four", object)])
    assert injector.list_providers() == ["good"]
    assert [problem.split(":")[0] for problem in problems] == [
        "the provider of one",
        "the provider of three",
        "the provider of four",
    ]
    assert SECRET not in caplog.text + "".join(problems)
