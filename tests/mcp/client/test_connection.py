"""The contract of a connection, against honest servers of both eras over both transports."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tertulia import package_loading
from tertulia.errors import ApprovalDeniedError, McpError
from tertulia.mcp.client.connection import SdkConnection
from tertulia.mcp.server_connection import Elicitation, ElicitationResult, SamplingRequest
from tests.deadlines import HANG_S
from tests.mcp.connected import Asked, Reach, call, recorded, serving, until
from tests.mcp.fakes import bare, by_http, by_stdio, hostile, plain
from tests.mcp.fakes.number import lives

KINDS = ("bare", "http", "plain")


@pytest.fixture(scope="module")
def behind_an_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """Its port and its record. One for all tests: it takes long to start."""
    record = tmp_path_factory.mktemp("http") / "record"
    with serving(plain("http", "0", "--record", str(record))) as port:
        yield port, record


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """What a server that is only this test's writes down."""
    return tmp_path / "record"


async def _honest(kind: str, request: pytest.FixtureRequest, reach: Reach, record: Path) -> SdkConnection:
    if kind == "http":
        port, _ = request.getfixturevalue("behind_an_address")
        return await reach(by_http(f"http://127.0.0.1:{port}/mcp", sampling=True))
    program = bare if kind == "bare" else plain
    return await reach(by_stdio(program("--record", str(record)), sampling=True))


@pytest.fixture(params=KINDS[:2])
async def honest(request: pytest.FixtureRequest, reach: Reach, record: Path) -> SdkConnection:
    """A server that behaves: of the old era over stdio, of the modern one over HTTP."""
    return await _honest(request.param, request, reach, record)


@pytest.fixture(params=KINDS)
async def any_honest(request: pytest.FixtureRequest, reach: Reach, record: Path) -> SdkConnection:
    """These two, and one of the modern era over stdio, which takes a second to start."""
    return await _honest(request.param, request, reach, record)


async def test_a_tool_is_listed_and_called(any_honest: SdkConnection) -> None:
    """S000-20: tools of a server can be called, whatever it speaks."""
    names = [tool.name for tool in (await any_honest.list_tools()).tools]
    assert {"echo", "slow", "ask", "env"} <= set(names)
    assert (await call(any_honest, "echo", text="héllo")).text == "héllo"
    assert any_honest.protocol_version in ("2025-11-25", "2026-07-28")
    assert any_honest.why is None
    assert not any_honest.gone.is_set()


async def test_calls_of_many_tasks_run_at_once_and_each_gets_its_own_answer(any_honest: SdkConnection) -> None:
    """C8: nothing is delivered to somebody else."""
    callers = [Asked(f"c{n}") for n in range(50)]
    answers = await asyncio.gather(*(call(any_honest, "echo", callers[n % 50], text=f"canary {n}") for n in range(200)))
    assert [answer.text for answer in answers] == [f"canary {n}" for n in range(200)]


async def test_progress_comes_while_the_call_lasts_and_not_after(honest: SdkConnection) -> None:
    heard: list[tuple[Any, ...]] = []
    answer = await call(honest, "slow", seconds=0.05, on_progress=lambda *news: heard.append(news))
    assert answer.text == "done"
    assert heard[0][:2] == (0.0, 20.0)
    count = len(heard)
    await call(honest, "echo", text="later")
    assert len(heard) == count


@pytest.mark.parametrize("how", ["timeout", "cancel"])
async def test_a_call_that_is_given_up_is_cancelled_at_the_server(
    any_honest: SdkConnection, record: Path, behind_an_address: tuple[int, Path], how: str
) -> None:
    """X-24: a timeout and a cancellation reach the server."""
    files = (record, behind_an_address[1])
    before = sum(recorded(file).count("cancelled slow") for file in files)
    begun = asyncio.Event()
    task = asyncio.create_task(
        call(
            any_honest,
            "slow",
            seconds=60,
            within_s=0.5 if how == "timeout" else HANG_S,
            on_progress=lambda *_: begun.set(),
        )
    )
    if how == "cancel":
        await asyncio.wait_for(begun.wait(), HANG_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        with pytest.raises(McpError, match=r"`slow` gave no answer within 0\.5 s") as refused:
            await task
        assert refused.value.detail["reason"] == "timeout"
    await until(lambda: sum(recorded(file).count("cancelled slow") for file in files) == before + 1)
    assert (await call(any_honest, "echo", text="still here")).text == "still here"


async def test_a_person_is_asked_in_the_name_of_the_caller(any_honest: SdkConnection) -> None:
    """C16, S000-38: an elicitation goes to the conversation whose call caused it, in both eras."""
    caller, other = Asked("c1"), Asked("c2")
    assert json.loads((await call(any_honest, "ask", caller, question="Sure?")).text)["content"] == {"ok": True}
    assert [question.message for question in caller.questions if isinstance(question, Elicitation)] == ["Sure?"]
    await call(any_honest, "echo", other, text="x")
    assert other.questions == []


async def test_a_page_to_be_visited_is_an_address(honest: SdkConnection) -> None:
    caller = Asked()
    answer = json.loads((await call(honest, "visit", caller, url="https://example.com/x")).text)
    assert answer["action"] == "accept"
    assert "content" not in answer
    (question,) = caller.questions
    assert isinstance(question, Elicitation)
    assert (question.url, question.schema) == ("https://example.com/x", {})


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_the_server_hears_what_the_person_said(honest: SdkConnection, action: Any) -> None:
    answer = json.loads((await call(honest, "ask", Asked(says=ElicitationResult(action, {"ok": True})))).text)
    assert answer["action"] == action
    assert "content" not in answer


async def test_whoever_may_not_be_asked_declines_and_does_not_say_why(honest: SdkConnection) -> None:
    """C16: denied unless allowed."""
    answer = await call(honest, "ask", Asked(says=ApprovalDeniedError("the secret reason")))
    assert json.loads(answer.text)["action"] == "decline"
    assert "secret" not in answer.text


async def test_the_model_is_asked_in_the_name_of_the_caller(honest: SdkConnection) -> None:
    caller = Asked()
    answer = json.loads((await call(honest, "sample", caller, text="hello")).text)
    assert answer["content"]["text"] == "to hello"
    (request,) = caller.questions
    assert isinstance(request, SamplingRequest)
    assert (request.messages, request.max_tokens) == ((("user", "hello"),), 9)


async def test_refused_sampling_is_an_error_without_its_reason(honest: SdkConnection) -> None:
    """C16."""
    caller = Asked(says=ApprovalDeniedError("the secret reason"))
    try:
        heard = (await call(honest, "sample", caller)).text
    except McpError as error:
        heard = error.message
    assert "refused" in heard
    assert "secret" not in heard


async def test_while_a_person_is_asked_the_time_of_the_call_stands_still(honest: SdkConnection) -> None:
    caller = Asked()
    caller.may_answer.clear()
    task = asyncio.create_task(call(honest, "ask", caller, within_s=2))
    await asyncio.wait_for(caller.being_asked.wait(), HANG_S)
    done, _ = await asyncio.wait({task}, timeout=2.2)
    assert not done
    caller.may_answer.set()
    assert json.loads((await task).text)["action"] == "accept"


async def test_whoever_is_asked_is_let_go_with_the_call(honest: SdkConnection) -> None:
    caller = Asked()
    caller.may_answer.clear()
    task = asyncio.create_task(call(honest, "ask", caller))
    await asyncio.wait_for(caller.being_asked.wait(), HANG_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(caller.let_go.wait(), HANG_S)
    assert (await call(honest, "echo", text="still here")).text == "still here"


async def test_an_unknown_tool_is_an_error_of_the_server(honest: SdkConnection) -> None:
    with pytest.raises(McpError, match=r"^fake: the server answered with error -32602: ") as refused:
        await call(honest, "no-such-tool")
    assert refused.value.detail == {"server": "fake", "reason": "refused"}
    assert "\x1b" not in refused.value.message


async def test_after_closing_every_call_says_so(honest: SdkConnection) -> None:
    await honest.close()
    await honest.close()
    assert honest.gone.is_set()
    for attempt in (call(honest, "echo"), honest.list_tools()):
        with pytest.raises(McpError, match="the connection is closed") as refused:
            await attempt
        assert refused.value.detail["reason"] == "closed"


async def test_closing_ends_the_calls_under_way(any_honest: SdkConnection) -> None:
    begun = asyncio.Event()
    task = asyncio.create_task(call(any_honest, "slow", seconds=60, on_progress=lambda *_: begun.set()))
    await asyncio.wait_for(begun.wait(), HANG_S)
    await any_honest.close()
    with pytest.raises(McpError) as refused:
        await task
    assert refused.value.detail["reason"] == "closed"


async def test_a_call_that_needs_a_page_to_be_visited_is_made_again_after_it_was(reach: Reach) -> None:
    link = await reach(by_stdio(bare()))
    caller = Asked()
    assert (await call(link, "gate", caller)).text == "open"
    assert [question.url for question in caller.questions if isinstance(question, Elicitation)] == [
        "https://example.com/in"
    ]
    with pytest.raises(McpError, match="error -32042: visit first"):
        await call(link, "gate", Asked(says=ElicitationResult("decline")))


# ---- what only one kind of server can show


async def test_in_the_old_era_a_question_that_could_be_two_conversations_is_refused_and_then_they_take_turns(
    reach: Reach,
) -> None:
    """S000-38: on an old-era connection a server that asks back has one conversation in flight at a time."""
    link = await reach(by_stdio(bare()))
    first, second = Asked("c1"), Asked("c2")
    begun = asyncio.Event()
    slow = asyncio.create_task(call(link, "slow", first, seconds=0.3, on_progress=lambda *_: begun.set()))
    await asyncio.wait_for(begun.wait(), HANG_S)
    assert "error" in (await call(link, "ask", second)).text or second.questions == []
    assert first.questions == second.questions == []
    assert (await slow).text == "done"

    first.may_answer.clear()
    asking = asyncio.create_task(call(link, "ask", first, question="whose?"))
    await asyncio.wait_for(first.being_asked.wait(), HANG_S)
    waiting = asyncio.create_task(call(link, "ask", second, question="mine"))
    assert (await call(link, "echo", Asked("c1"), text="mine too")).text == "mine too"
    done, _ = await asyncio.wait({waiting}, timeout=0.1)
    assert not done
    assert second.questions == []
    first.may_answer.set()
    await asking
    await waiting
    assert [question.message for question in second.questions if isinstance(question, Elicitation)] == ["mine"]


@pytest.mark.parametrize("kind", ["plain", "http"])
async def test_in_the_modern_era_two_conversations_are_asked_at_the_same_time(
    reach: Reach, behind_an_address: tuple[int, Path], kind: str
) -> None:
    """S000-38."""
    address = by_http(f"http://127.0.0.1:{behind_an_address[0]}/mcp")
    link = await reach(address if kind == "http" else by_stdio(plain()))
    callers = [Asked(f"c{n}") for n in range(5)]
    for caller in callers:
        caller.may_answer.clear()
    tasks = [asyncio.create_task(call(link, "ask", caller, question=str(n))) for n, caller in enumerate(callers)]
    for caller in callers:
        await asyncio.wait_for(caller.being_asked.wait(), HANG_S)
    for caller in callers:
        caller.may_answer.set()
    await asyncio.gather(*tasks)
    messages = [[q.message for q in caller.questions if isinstance(q, Elicitation)] for caller in callers]
    assert messages == [[str(n)] for n in range(5)]


@pytest.mark.parametrize("field", ["elicitation", "sampling"])
async def test_what_the_definition_does_not_allow_is_not_offered_to_the_server(reach: Reach, field: str) -> None:
    """C16: denied unless allowed."""
    link = await reach(by_stdio(bare(), **{field: False}))
    caller = Asked()
    heard = await call(link, "ask" if field == "elicitation" else "sample", caller)
    assert "not supported" in heard.text
    assert caller.questions == []


async def test_roots_are_told_where_there_are_some(reach: Reach, tmp_path: Path) -> None:
    definition, launch = by_stdio(bare())
    link = await reach((definition, replace(launch, roots=(str(tmp_path),))))
    assert json.loads((await call(link, "roots")).text)["roots"][0]["uri"] == tmp_path.as_uri()
    bald = await reach((definition, launch))
    assert "not supported" in (await call(bald, "roots")).text


async def test_changed_tools_are_told_of(reach: Reach) -> None:
    link = await reach(by_stdio(bare()))
    await link.list_tools()
    assert reach.changes == 0
    await call(link, "define", tools=[{"name": "new", "inputSchema": {"type": "object"}}])
    await asyncio.wait_for(reach.changed.wait(), HANG_S)
    assert [tool.name for tool in (await link.list_tools()).tools] == ["new"]


@pytest.mark.parametrize("kind", ["plain", "http"])
async def test_changed_tools_are_told_of_in_the_modern_era_too(
    reach: Reach, behind_an_address: tuple[int, Path], kind: str
) -> None:
    address = by_http(f"http://127.0.0.1:{behind_an_address[0]}/mcp")
    link = await reach(address if kind == "http" else by_stdio(plain()))
    before = (await link.list_tools()).tools
    assert reach.changes == 0
    while not reach.changed.is_set():
        # Until it listens, a change is told to nobody.
        await call(link, "change")
    assert len((await link.list_tools()).tools) > len(before)


async def test_cancelling_the_connecting_leaves_nothing(reach: Reach, record: Path) -> None:
    task = asyncio.create_task(reach(by_stdio(hostile("hangs", "--record", str(record)))))
    await until(lambda: "server/discover" in recorded(record))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    pid = int(recorded(record)[0].split()[1])
    assert not lives(pid)
    assert len(reach.nursery) == 0


async def test_what_was_said_is_in_no_log(
    reach: Reach, behind_an_address: tuple[int, Path], caplog: pytest.LogCaptureFixture
) -> None:
    """X-66: the SDK would write messages down."""
    caplog.set_level(logging.DEBUG)
    for reached in (by_http(f"http://127.0.0.1:{behind_an_address[0]}/mcp"), by_stdio(bare())):
        link = await reach(reached)
        await call(link, "echo", text="a private word")
        with pytest.raises(McpError):
            await call(link, "no-such-tool", text="a private word")
        await link.close()
    assert "private" not in caplog.text


async def test_without_the_sdk_it_is_said_what_to_install(reach: Reach, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'mcp'", name="mcp")

    monkeypatch.setattr(package_loading, "import_module", missing)
    with pytest.raises(McpError, match=r"pip install 'tertulia\[mcp\]'"):
        await reach(by_stdio(bare()))


def test_the_sdk_is_loaded_with_the_first_connection_and_not_before() -> None:
    code = (
        "import sys, tertulia.mcp.client.connection\n"
        "print(sorted({'mcp', 'mcp_types', 'pydantic', 'anyio', 'httpx2'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=True)
    assert run.stdout.strip() == "[]"


async def test_arguments_that_are_nested_too_deep_are_not_sent_and_nobody_else_is_to_blame(
    reach: Reach, record: Path
) -> None:
    """HARDENING C14"""
    link = await reach(by_stdio(bare("--record", str(record))))
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    with pytest.raises(McpError, match="the arguments are nested deeper than 200") as refused:
        await call(link, "echo", text=deep)
    assert refused.value.detail["reason"] == "limit"
    assert "call echo" not in recorded(record)
    assert (await call(link, "echo", text="still here")).text == "still here"
