"""Servers that are programs, and bad ones: each costs its own connection at most, and leaves no process."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest

from tertulia.errors import ClosedError, McpError, NoApproverError
from tertulia.mcp.client import stdio_transport
from tertulia.mcp.client.jsonrpc_lines import JsonRpcLines
from tertulia.mcp.config.definition import ServerDefinition, Stdio
from tertulia.mcp.config.launch import resolve_launch
from tertulia.sandbox.runner import CommandResult, Output
from tests.deadlines import HANG_S
from tests.loop_steps import MOST_S, loop_steps
from tests.mcp.connected import Asked, Reach, call, recorded, until
from tests.mcp.fakes import VARIABLES, bare, by_stdio, hostile
from tests.mcp.fakes.number import lives
from tests.sandbox.confined import need, tagged

ROOT = Path(__file__).parents[3]


def pid_of(record: Path) -> int:
    return next(int(line.split()[1]) for line in reversed(recorded(record)) if line.startswith("start"))


async def test_c11_a_server_that_dies_at_start_is_an_error_with_its_last_words(reach: Reach) -> None:
    with pytest.raises(McpError) as refused:
        await reach(by_stdio(hostile("dies-at-start")))
    assert refused.value.message == "fake: it exited with code 3; its last words: no key ⟨U+001B⟩[31mset"
    assert len(reach.nursery) == 0


async def test_c11_a_server_that_dies_in_a_call_ends_every_call_at_once(reach: Reach) -> None:
    link = await reach(by_stdio(hostile("dies-in-call")))
    calls = await asyncio.gather(*(call(link, "echo", text=str(n)) for n in range(5)), return_exceptions=True)
    assert {str(call) for call in calls} == {"fake: it exited with code 5; its last words: oh no"}
    assert all(isinstance(call, McpError) and call.detail["reason"] == "closed" for call in calls)
    await asyncio.wait_for(link.gone.wait(), HANG_S)
    assert link.why == "it exited with code 5; its last words: oh no"


async def test_c7_a_server_that_says_nothing_but_nonsense_is_given_up(
    reach: Reach, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not listened to until its time is over: that would take a processor."""
    monkeypatch.setattr(stdio_transport, "MAX_NONSENSE", 1_000)
    with pytest.raises(McpError) as refused:
        await reach(by_stdio(("yes", "hello")))
    assert refused.value.message == "fake: it sent 1,000 lines in a row that are no messages"
    assert len(reach.nursery) == 0


async def test_c11_a_server_that_hangs_is_ended_when_its_time_is_over(reach: Reach, tmp_path: Path) -> None:
    record = tmp_path / "record"
    starting = asyncio.create_task(reach(by_stdio(hostile("hangs", "--record", str(record)))))
    await until(lambda: recorded(record))
    assert lives(pid_of(record))
    # As the time that a server has for its start ends it.
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not lives(pid_of(record))
    assert len(reach.nursery) == 0


async def test_c11_a_server_that_ignores_sigterm_is_killed(
    reach: Reach, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio_transport, "POLITE_S", 0.2)
    record = tmp_path / "record"
    link = await reach(by_stdio(hostile("ignores-sigterm", "--record", str(record))))
    pid = pid_of(record)
    assert lives(pid)
    await asyncio.wait_for(link.close(), HANG_S)
    assert recorded(record)[-2:] == ["eof", "sigterm"]
    assert not lives(pid)


async def test_an_honest_server_is_only_asked_to_end(reach: Reach, tmp_path: Path) -> None:
    record = tmp_path / "record"
    link = await reach(by_stdio(bare("--record", str(record))))
    await link.close()
    assert recorded(record)[-1] == "eof"
    assert link.why is None


async def test_a_program_that_is_not_there_says_so(reach: Reach) -> None:
    with pytest.raises(McpError, match=r"^fake: `/no/such/server` cannot be started: No such file or directory$"):
        await reach(by_stdio(("/no/such/server",)))


async def test_a_directory_that_is_not_there_says_so(reach: Reach) -> None:
    definition = ServerDefinition(name="fake", transport=Stdio(command="true", cwd="/no/such/place"))
    with pytest.raises(McpError, match="/no/such/place") as refused:
        await reach((definition, resolve_launch(definition, VARIABLES)))
    assert refused.value.detail["reason"] == "not_started"


async def test_a17_a_daemon_of_a_server_ends_with_it(reach: Reach) -> None:
    tag = f"tag{secrets.token_hex(6)}"
    link = await reach(by_stdio(hostile("daemon", "--tag", tag)))
    await until(lambda: len(tagged(tag)) == 2)
    await link.close()
    await until(lambda: not tagged(tag))


PRODUCT = """
import asyncio, sys
from tests.mcp.connected import reaching
from tests.mcp.fakes import by_stdio, hostile

async def main():
    async with reaching() as reach:
        await reach(by_stdio(hostile("daemon", "--tag", sys.argv[1])))
        await reach(by_stdio(hostile("ignores-sigterm", "--tag", sys.argv[1])))
        print("up", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a18_nothing_of_a_server_survives_the_product_that_is_killed() -> None:
    tag = f"tag{secrets.token_hex(6)}"
    argv = [sys.executable, "-c", PRODUCT, tag]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=ROOT) as product:
        assert product.stdout is not None
        assert await asyncio.to_thread(product.stdout.readline) == b"up\n"
        assert len(tagged(tag)) >= 3
        product.send_signal(signal.SIGKILL)
    async with asyncio.timeout(HANG_S):
        await until(lambda: not tagged(tag))


async def test_c9_600_kb_on_stderr_hinder_nobody(reach: Reach) -> None:
    """And no more than the end of it is kept."""
    link = await reach(by_stdio(hostile("loud")))
    for n in range(3):
        assert (await call(link, "echo", text=str(n))).text == str(n)
    errors = link._transport._errors  # type: ignore[union-attr]
    assert 0 < len(errors) <= 2 * stdio_transport.MAX_ERROR_OUTPUT


SECRET = "not-to-be-shown-4711"


async def test_one_that_ends_before_it_reads_still_has_its_last_words_without_its_secrets(reach: Reach) -> None:
    """C11: its end says more than that it takes no input. Secrets are taken out before the words are cut."""
    shouts = f'echo "$API_TOKEN {"x" * 285}" >&2; exit 3'
    with pytest.raises(McpError) as refused:
        await reach(by_stdio(("/bin/sh", "-c", shouts), env={"API_TOKEN": SECRET}))
    assert "it exited with code 3; its last words: " in refused.value.message
    assert "x" * 285 in refused.value.message
    assert "4711" not in refused.value.message


@pytest.mark.parametrize(
    ("finished", "why"),
    [(CommandResult(3, "exited", Output(b"", b"", 0), 0.1), "it exited with 3"), (None, "it takes no more input")],
)
async def test_the_end_of_a_server_is_why_it_takes_no_more_input(finished: CommandResult | None, why: str) -> None:
    """C11: whoever writes first to one that has ended knows as much as whoever waits for its end."""

    class Ended:
        async def write(self, data: bytes) -> None:
            raise ClosedError("its input is closed")

        async def wait(self, seconds: float) -> CommandResult | None:
            return finished

    reasons: list[str] = []
    end_of = lambda ended: f"it exited with {ended.exit_code}"  # noqa: E731
    writes = stdio_transport._Writes(JsonRpcLines("fake"), Ended(), reasons.append, end_of)  # type: ignore[arg-type]
    ping = SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method="ping"))
    with pytest.raises(anyio.ClosedResourceError):
        await writes.send(ping)
    assert reasons == [why]


async def test_the_configured_secrets_of_a_server_are_not_in_its_errors(reach: Reach) -> None:
    link = await reach(by_stdio(bare(), env={"API_TOKEN": SECRET}))
    with pytest.raises(McpError, match=r"no tool \[redacted:secret\]"):
        await call(link, SECRET)


@pytest.mark.parametrize("size", [65_537, 1 << 20])
async def test_c10_a_long_line_is_read_whole(reach: Reach, size: int) -> None:
    """64 KiB+1 and more; of the text the bound of an answer holds, and its size is true."""
    link = await reach(by_stdio(hostile("long-line")))
    answer = await call(link, "echo", bytes=size)
    assert answer.total_bytes == size
    assert set(answer.text) == {"x"}


@pytest.mark.parametrize("mode", ["long-line", "no-newline"])
async def test_c10_a_line_of_1_gib_ends_the_connection_with_a_reason(reach: Reach, tmp_path: Path, mode: str) -> None:
    record = tmp_path / "record"
    link = await reach(by_stdio(hostile(mode, "--record", str(record))))
    pid = pid_of(record)
    with pytest.raises(McpError, match="it sent a line of more than 16,777,216 bytes"):
        await call(link, "echo", bytes=1 << 30)
    await asyncio.wait_for(link.gone.wait(), HANG_S)
    assert not lives(pid)
    assert "written" not in recorded(record)


async def test_c10_a_line_that_never_ends_is_a_timeout(reach: Reach) -> None:
    link = await reach(by_stdio(hostile("no-newline")))
    with pytest.raises(McpError, match=r"gave no answer within 0\.5 s"):
        await call(link, "echo", bytes=100, within_s=0.5)


async def test_c7_wrong_and_foreign_ids_are_dropped(reach: Reach) -> None:
    link = await reach(by_stdio(hostile("wrong-ids")))
    assert len((await link.list_tools()).tools) > 10
    answers = await asyncio.gather(*(call(link, "echo", text=f"true {n}") for n in range(20)))
    assert [answer.text for answer in answers] == [f"true {n}" for n in range(20)]
    assert link.dropped["a response to no request"] >= 20
    assert link.dropped["a line that is no message"] >= 20


async def test_c7_a_second_answer_is_dropped(reach: Reach) -> None:
    link = await reach(by_stdio(hostile("twice")))
    assert [(await call(link, "echo", text=str(n))).text for n in range(5)] == ["0", "1", "2", "3", "4"]
    assert link.dropped["a response to no request"] >= 5


async def test_c13_a_server_gets_the_usual_few_variables_and_those_that_are_declared(
    reach: Reach, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET_OF_OURS", "x")
    link = await reach(by_stdio(bare(), env={"DECLARED": "yes"}))
    environment = json.loads((await call(link, "env")).text)
    assert environment["DECLARED"] == "yes"
    assert set(environment) <= {"DECLARED", "PATH", "HOME", "LC_CTYPE"}
    assert "A_SECRET_OF_OURS" not in environment


async def test_a_storm_of_changes_is_told_of_and_hinders_no_call(reach: Reach) -> None:
    link = await reach(by_stdio(hostile("storm")))
    assert (await call(link, "echo", text="through")).text == "through"
    await until(lambda: reach.changes == 20_000)


@pytest.mark.parametrize("mode", ["bad-utf8", "chatty"])
async def test_what_is_no_message_is_dropped(reach: Reach, mode: str) -> None:
    link = await reach(by_stdio(hostile(mode)))
    assert (await call(link, "echo", text="ok")).text == "ok"
    assert link.dropped["a line that is no message"] >= 2


async def test_a_server_that_dies_at_any_byte_of_its_answer_ends_the_call_at_once(reach: Reach) -> None:
    """HARDENING C11: what came of it is no answer."""
    for count in range(0, 85, 12):
        link = await reach(by_stdio(hostile("cuts")))
        with pytest.raises(McpError, match="it exited with code 0") as refused:
            await call(link, "echo", text=str(count), within_s=HANG_S)
        assert refused.value.detail["reason"] == "closed"


@pytest.mark.parametrize("what", ["progress", "log", "ping", "elicit"])
async def test_a_flood_in_a_call_drowns_nobody_else(reach: Reach, what: str) -> None:
    """Issue 8: one broken server never delays another."""
    link, other = await reach(by_stdio(hostile("floods"))), await reach(by_stdio(bare()))
    caller = Asked(says=NoApproverError("nobody"))
    async with asyncio.TaskGroup() as group:
        flood = group.create_task(call(link, "echo", caller, text=what))
        for number in range(20):
            assert (await call(other, "echo", text=str(number), within_s=HANG_S)).text == str(number)
        assert (await flood).text == "through"


async def test_a_page_in_place_of_json_is_no_server(reach: Reach) -> None:
    with pytest.raises(TimeoutError):
        await reach(by_stdio(hostile("html")), within_s=1)
    assert len(reach.nursery) == 0


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("deep", "it has nested deeper than 500 levels"),
        ("parts", "it has more than 200,000 parts"),
        ("list", "it is not what JSON-RPC calls an answer"),
        ("bytes", "it is not UTF-8"),
        ("cut", "it is not JSON"),
    ],
)
async def test_an_answer_that_cannot_be_read_fails_its_call_at_once_and_no_other(
    reach: Reach, how: str, why: str
) -> None:
    """L4: the call waited out its time limit. L1: nothing of it is built."""
    link = await reach(by_stdio(hostile("unreadable")))
    async with loop_steps() as steps, asyncio.TaskGroup() as group:
        other = group.create_task(call(link, "slow", text="", seconds=0.1))
        with pytest.raises(McpError, match=f"the server's answer cannot be read: {why}") as refused:
            await call(link, "echo", text=how, within_s=3600)
    assert refused.value.detail["reason"] == "protocol"
    assert other.result().text
    assert (await call(link, "echo", text="fine")).text == "fine"
    assert steps.longest_s < MOST_S


async def test_a_server_that_refuses_to_begin_is_told_in_its_own_words(reach: Reach) -> None:
    """L7: it was told as "it exited with code 137", which is how we ended it."""
    with pytest.raises(McpError, match="the server answered with error -32000: License expired") as refused:
        await reach(by_stdio(hostile("unlicensed")))
    assert refused.value.detail["reason"] == "refused"


async def test_results_that_are_none_are_errors_with_a_place_and_without_their_words(reach: Reach) -> None:
    link = await reach(by_stdio(hostile("sloppy")))
    listing = await link.list_tools()
    assert (listing.tools, len(listing.left_out)) == ((), 1)
    assert "none" not in listing.left_out[0]
    with pytest.raises(McpError, match="is not what the protocol says, at `") as refused:
        await call(link, "echo")
    assert refused.value.detail["reason"] == "protocol"
    assert "perhaps" not in refused.value.message


async def test_a_regex_bomb_in_an_output_schema_does_not_hold_the_loop(reach: Reach) -> None:
    """C14, for what comes back."""
    link = await reach(by_stdio(hostile("bomb")))
    await link.list_tools()
    async with asyncio.timeout(HANG_S):
        assert (await call(link, "echo")).text == "boom"


async def test_c16_questions_outside_any_call_are_refused(reach: Reach, tmp_path: Path) -> None:
    record = tmp_path / "record"
    link = await reach(by_stdio(hostile("asks-unasked", "--record", str(record)), sampling=True))
    await link.list_tools()
    await until(lambda: len(recorded(record)) == 4)
    assert recorded(record)[1:] == [
        "elicitation/create error",
        "sampling/createMessage error",
        "roots/list error",
    ]


async def test_a_server_that_stops_reading_costs_its_callers_their_timeout_and_nobody_else(
    reach: Reach, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio_transport, "MAX_UNWRITTEN", 1 << 20)
    link = await reach(by_stdio(hostile("deaf"), startup_timeout_s=0.3))
    with pytest.raises(McpError, match="did not list its tools"):
        await link.list_tools()
    with pytest.raises(McpError, match="gave no answer"):
        await call(link, "echo", text="x" * 500_000, within_s=0.3)
    with pytest.raises(McpError, match="it does not read what it is sent"):
        await asyncio.gather(*(call(link, "echo", text="x" * 300_000, within_s=3) for _ in range(3)))
    await asyncio.wait_for(link.gone.wait(), HANG_S)


async def test_a_server_that_closes_its_output_is_a_timeout(reach: Reach) -> None:
    link = await reach(by_stdio(hostile("closes-stdout")))
    with pytest.raises(McpError, match="gave no answer"):
        await call(link, "echo", within_s=0.5)


async def test_a_server_of_the_old_era_that_ends_at_our_first_question_is_asked_in_its_own_way(
    reach: Reach, tmp_path: Path
) -> None:
    record = tmp_path / "record"
    link = await reach(by_stdio(hostile("strict", "--record", str(record))))
    assert (await call(link, "echo", text="hi")).text == "hi"
    assert [line.split()[0] for line in recorded(record)] == ["start", "not", "start", "call"]
    assert link.why is None


async def test_a_server_writes_no_faster_than_we_read(reach: Reach, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio_transport, "MAX_UNREAD", 1000)
    link = await reach(by_stdio(hostile("storm")))
    assert (await call(link, "echo", text="through")).text == "through"
    await until(lambda: reach.changes == 20_000)


async def test_a_server_in_a_sandbox_cannot_write(reach: Reach, tmp_path: Path) -> None:
    """X-27: a server can be confined like a command."""
    need("bubblewrap")
    record = tmp_path / "record"
    link = await reach(by_stdio(bare(), sandbox="read_only"))
    assert (await call(link, "echo", text="inside")).text == "inside"
    with pytest.raises(McpError, match=r"its last words: .*FileNotFoundError"):
        await reach(by_stdio(bare("--record", str(record)), sandbox="read_only"))
    assert not record.exists()


async def test_asked_back_in_a_storm_of_calls_nobody_is_mistaken_for_another(reach: Reach) -> None:
    """C8, S000-38 in the old era: whoever is asked is the one whose call it was; at first, nobody is."""
    link = await reach(by_stdio(bare()))
    callers = [Asked(f"c{n}") for n in range(10)]
    for _ in range(2):
        await asyncio.gather(*(call(link, "ask", callers[n % 10], question=f"c{n % 10}") for n in range(60)))
    for n, caller in enumerate(callers):
        assert {getattr(question, "message", "") for question in caller.questions} <= {f"c{n}"}
    assert sum(len(caller.questions) for caller in callers) == 60


@pytest.mark.parametrize("line", [b"chatter\n", b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}\n'])
async def test_a_server_that_shouts_leaves_the_loop_to_others(line: bytes) -> None:
    """Issue 8: one broken server never delays another, whether what it says is a message or not."""
    reads = stdio_transport._Reads(JsonRpcLines("s"), lambda why: None)
    reads.feed(line * 10_000)
    reads.end()
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(other())
        heard = [message async for message in reads]
        task.cancel()
    assert len(heard) in (0, 10_000)
    assert turns >= 10_000 // stdio_transport._IN_A_ROW


async def test_many_small_lines_are_held_back_as_a_few_large_ones_are() -> None:
    class Process:
        paused = False

        def pause(self) -> None:
            self.paused = True

    reads = stdio_transport._Reads(JsonRpcLines("s"), lambda why: None)
    reads.process = process = Process()  # type: ignore[assignment]
    fed = 0
    while not process.paused:
        reads.feed(b"x\n" * 1_000)
        fed += 1_000
    assert fed < stdio_transport.MAX_UNREAD / 60, "each takes room besides its byte"
