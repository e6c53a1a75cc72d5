"""The real thing: a process, its pipes, its signals, and clients that leave in the middle of a word."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tertulia.models.scripted.script import say
from tertulia.protocol.line_framing import LineSplitter
from tertulia.server.jsonrpc import stdio
from tertulia.server.jsonrpc.peer import Peer
from tertulia.server.jsonrpc.stdio import serve_descriptors
from tertulia.session.settings.settings import Settings
from tests.deadlines import HANG_S
from tests.guards import SessionWatch
from tests.server.client import DEADLINE_S, Message, is_event, model, ticks
from tests.thorough import sample

Done = tuple[int, bytes, bytes]
"""Exit code, standard output, standard error."""

PROGRAM = """
import asyncio, subprocess, sys
import tertulia
from tertulia.server.jsonrpc.stdio import serve_stdio

@tertulia.tool
def shout() -> str:
    "Write where nobody may write, and read what nobody may read."
    print("noise from Python")
    subprocess.run(["sh", "-c", "echo noise from a child; cat"], check=True)
    return "shouted, and heard: " + sys.stdin.read()

settings = tertulia.Settings(model="scripted/" + sys.argv[1], tools=[shout], close_timeout_s=float(sys.argv[2]))

async def main() -> int:
    # Otherwise a busy machine has asyncio's debug mode complain on standard error.
    asyncio.get_running_loop().slow_callback_duration = 3600
    return await serve_stdio(settings)

sys.exit(asyncio.run(main()))
"""
HOUR_MS = 3_600_000
SCRIPT: list[Any] = [
    {"text": "It will take a while.", "delay_ms": HOUR_MS, "match": {"contains": "slow"}, "repeat": True},
    {"text": "much " * 200_000, "match": {"contains": "flood"}},
    {"tool_calls": [{"name": "shout", "arguments": {}}], "match": {"contains": "noise"}},
    {"text": "Done.", "repeat": True},
]


def line(method: str, id: Any = None, **params: Any) -> bytes:
    body = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if id is None else {"id": id})
    return json.dumps(body).encode() + b"\n"


HELLO = line("initialize", 0, client={"name": "test"})


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(SCRIPT))
    return [sys.executable, "-X", "dev", "-c", PROGRAM, str(script), "5"]


class Server:
    """A server process and the client's end of its pipes."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.messages: list[Any] = []
        self._ids = count(1)

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def ask(self, method: str, **params: Any) -> int:
        id = next(self._ids)
        self.send(line(method, id, **params))
        return id

    async def read(self) -> Any:
        assert self.process.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            message = json.loads(await self.process.stdout.readline())
        self.messages.append(message)
        return message

    async def answer(self, id: int) -> Message:
        for message in self.messages:
            if message.get("id") == id:
                return message
        while (message := await self.read()).get("id") != id:
            pass
        return message

    async def call(self, method: str, **params: Any) -> Any:
        return (await self.answer(self.ask(method, **params)))["result"]

    async def event(self, type: str) -> Message:
        while not (is_event(message := await self.read()) and message["params"]["type"] == type):
            pass
        return message["params"]

    async def end(self) -> tuple[int, str]:
        """What it still says is kept; its exit code and what it wrote to standard error."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        async with asyncio.timeout(DEADLINE_S):
            out, err = await self.process.communicate()
        self.messages += [json.loads(line) for line in out.splitlines()]
        return self.process.returncode or 0, err.decode()


@asynccontextmanager
async def running(command: list[str]) -> AsyncIterator[Server]:
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=1 << 24)
    try:
        yield Server(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


def complete(command: list[str], data: bytes = b"", **options: Any) -> Done:
    """Run it on this input to its end."""
    if "stdin" not in options:
        options["input"] = data
    done = subprocess.run(command, capture_output=True, timeout=HANG_S, check=False, **options)
    return done.returncode, done.stdout, done.stderr


# ── a whole session ──────────────────────────────────────────────────────────────────────────────────────────


async def test_a_client_drives_a_whole_session_over_pipes(command: list[str]) -> None:
    async with running(command) as server:
        hello = await server.call("initialize", client={"name": "test", "version": "1"})
        assert hello["server"]["name"] == "tertulia"
        assert (await server.event("session_configured"))["session_id"] == hello["session_id"]

        opened = await server.call("conversation/open", base_instructions="Be brief.", title="one")
        id = opened["conversation_id"]
        reply = await server.call("conversation/message", conversation_id=id, text="hello")
        assert (reply["status"], reply["last_assistant_message"]) == ("completed", "Done.")
        assert server.messages[-2]["params"]["type"] == "task_complete"

        message = server.ask("conversation/message", conversation_id=id, text="slow, please")
        await server.event("task_started")
        listed = (await server.call("conversation/list"))["conversations"]
        assert [conversation["status"] for conversation in listed] == ["idle", "running"]
        assert (await server.call("conversation/interrupt", conversation_id=id))["interrupted"]
        assert (await server.answer(message))["result"]["status"] == "interrupted"

        assert (await server.call("conversation/close", conversation_id=id))["closed"]
        code, errors = await server.end()
        assert (code, errors) == (0, "")
        durable = [m["params"]["seq"] for m in server.messages if is_event(m) and m["params"]["seq"] is not None]
        assert durable == list(range(1, len(durable) + 1))


async def test_when_the_input_ends_what_was_asked_is_still_answered(command: list[str]) -> None:
    hello = HELLO + line("conversation/message", 1, conversation_id="root", text="hello")
    done = await asyncio.to_thread(
        subprocess.run, command, input=hello, capture_output=True, timeout=HANG_S, check=True
    )
    answers = [m for m in map(json.loads, done.stdout.splitlines()) if m.get("id") == 1]
    assert [m["result"]["status"] for m in answers] == ["completed"]


async def test_when_the_input_ends_a_task_that_goes_on_and_on_is_interrupted(command: list[str]) -> None:
    command[-1] = "0.2"
    async with running(command) as server:
        await server.call("initialize")
        message = server.ask("conversation/message", conversation_id="root", text="slow")
        await server.event("task_started")
        assert await server.end() == (0, "")
        assert (await server.answer(message))["result"]["status"] == "interrupted"
        aborted = [m["params"] for m in server.messages if is_event(m) and m["params"]["type"] == "turn_aborted"]
        assert [event["data"]["reason"] for event in aborted] == ["shutdown"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_in_the_same_way(command: list[str], number: int) -> None:
    """H7."""
    async with running(command) as server:
        await server.call("initialize")
        message = server.ask("conversation/message", conversation_id="root", text="slow")
        await server.event("task_started")
        server.process.send_signal(number)
        assert (await server.answer(message))["result"]["status"] == "interrupted"
        assert await server.end() == (0, "")


def test_a_signal_while_a_client_does_not_read_ends_it_in_time(command: list[str]) -> None:
    """H7, H4."""
    flood = line("conversation/message", 1, conversation_id="root", text="flood")
    with subprocess.Popen([*command[:-1], "0.2"], stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(HELLO + flood)
        process.stdin.flush()
        while b"agent_message_delta" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0


async def test_a_client_that_closes_its_end_and_stays_silent_ends_it(command: list[str]) -> None:
    """D12."""
    async with running(command) as server:
        await server.call("initialize")
        server.ask("conversation/message", conversation_id="root", text="slow")
        await server.event("task_started")
        assert server.process.stdout is not None
        server.process.stdout._transport.close()  # pyright: ignore[reportAttributeAccessIssue]
        async with asyncio.timeout(DEADLINE_S):
            assert await server.process.wait() == 0
            assert server.process.stderr is not None
            assert await server.process.stderr.read() == b""


# ── whatever stands behind the descriptors ───────────────────────────────────────────────────────────────────


async def test_nobody_else_writes_to_standard_output_or_reads_standard_input(command: list[str]) -> None:
    async with running(command) as server:
        await server.call("initialize")
        message = server.ask("conversation/message", conversation_id="root", text="noise")
        ended = await server.event("tool_call_end")
        assert (ended["data"]["success"], ended["data"]["output"]) == (True, "shouted, and heard: ")
        await server.answer(message)
        code, errors = await server.end()
        assert code == 0
        assert sorted(errors.splitlines()) == ["noise from Python", "noise from a child"]


def test_files_work_like_pipes(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(HELLO + line("conversation/list", 1).rstrip())
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as target:
        done = subprocess.run(command, stdin=source, stdout=target, stderr=PIPE, timeout=HANG_S, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    messages = [json.loads(line) for line in (tmp_path / "out").read_bytes().splitlines()]
    assert [m["id"] for m in messages if "result" in m] == [0, 1]


def test_no_input_at_all_is_the_end(command: list[str]) -> None:
    assert complete(command, stdin=subprocess.DEVNULL) == (0, b"", b"")


@pytest.mark.parametrize("redirection", ["<&-", ">&-", "<&- >&-"])
def test_without_standard_input_or_output_it_says_so_and_ends(command: list[str], redirection: str) -> None:
    code, out, err = complete(["sh", "-c", f'exec "$@" {redirection}', "sh", *command], HELLO)
    assert (code, out) == (0, b"")
    assert b"must be open" in err
    assert b"Traceback" not in err


def test_without_standard_error_it_works(command: list[str]) -> None:
    noise = line("conversation/message", 1, conversation_id="root", text="noise")
    code, out, _ = complete(["sh", "-c", 'exec "$@" 2>&-', "sh", *command], HELLO + noise)
    assert code == 0
    assert {json.loads(line).get("id") for line in out.splitlines()} == {None, 0, 1}


def test_descriptors_are_left_as_they_were(command: list[str]) -> None:
    source, target = os.pipe()
    os.write(target, HELLO)
    os.close(target)
    assert os.get_blocking(source)
    code, _, _ = complete(command, stdin=source)
    assert code == 0
    assert os.get_blocking(source), "a parent that shares it would be surprised"
    os.close(source)


# ── clients that leave ───────────────────────────────────────────────────────────────────────────────────────

CONVERSATION = b"".join(
    (
        HELLO,
        line("conversation/open", 1, title="x"),
        line("conversation/message", 2, conversation_id="root", text="hi"),
        line("conversation/message", 3, conversation_id="root", text="slow"),
        b"[" + line("conversation/list", 4).strip() + b"]\n",
    )
)


def settings() -> Settings:
    slow = say("late", match="slow", gate=asyncio.Event(), repeat=True)
    # What still runs at the end of the input is stopped soon: it never ends by itself.
    return Settings(model=model([slow, "hello"]), close_timeout_s=0.05)


@pytest.fixture
async def watch(monkeypatch: pytest.MonkeyPatch) -> SessionWatch:
    return SessionWatch(monkeypatch)


async def served(data: bytes, take: int | None = None) -> bytes:
    """What comes back for this input when the client reads so much and leaves; all of it by default."""
    (source, there), (here, target) = os.pipe(), os.pipe()
    os.write(there, data)
    os.close(there)
    if take is not None:
        os.set_blocking(here, False)
    stop = asyncio.Event()
    serving = asyncio.create_task(serve_descriptors(settings(), source, target, stop))
    taken = b""
    async with asyncio.timeout(DEADLINE_S):
        while take is not None and len(taken) < take and not serving.done():
            try:
                taken += os.read(here, take - len(taken))
            except BlockingIOError:
                await asyncio.sleep(0)
        if take is not None:
            os.close(here)
        await serving
    os.close(source)
    os.close(target)
    if take is None:
        while chunk := os.read(here, 65_536):
            taken += chunk
        os.close(here)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    return taken


@pytest.mark.slow
async def test_input_that_ends_at_any_byte_ends_the_server_and_leaves_nothing(watch: SessionWatch) -> None:
    """D12."""
    for offset in sample(range(len(CONVERSATION) + 1), 40):
        payloads = [json.loads(text) for text in (await served(CONVERSATION[:offset])).splitlines()]
        answers = [m for m in payloads if not is_event(m)]
        whole = CONVERSATION[:offset].count(b"\n")
        assert whole <= len(answers) <= whole + 1, f"cut at {offset}: each line is answered, and the torn one may be"
    watch.check()


@pytest.mark.slow
async def test_a_client_that_leaves_at_any_byte_of_the_output_ends_the_server(watch: SessionWatch) -> None:
    """D12."""
    length = len(await served(CONVERSATION))
    offsets = sample(range(0, length, 41), 25)
    # How much there is to take depends on how far the last message came before the input ended.
    taken = [len(await served(CONVERSATION, offset)) for offset in offsets]
    assert all(took <= offset for took, offset in zip(taken, offsets, strict=True))
    assert sum(took == offset for took, offset in zip(taken, offsets, strict=True)) > len(offsets) // 2
    watch.check()


async def test_a_line_that_is_too_long_is_refused_and_the_next_one_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "LineSplitter", lambda: LineSplitter(1_000))
    long = line("conversation/message", 1, conversation_id="root", text="x" * 1_000)
    payloads = [json.loads(text) for text in (await served(HELLO + long + line("conversation/list", 2))).splitlines()]
    answers = [m for m in payloads if not is_event(m)]
    assert [m["id"] for m in answers] == [0, None, 2]
    assert (answers[1]["error"]["code"], answers[1]["error"]["data"]["code"]) == (-32600, "invalid_request")


async def test_a_server_that_is_stopped_ends_though_its_input_does_not() -> None:
    (source, there), (here, target) = os.pipe(), os.pipe()
    stop = asyncio.Event()
    serving = asyncio.create_task(serve_descriptors(settings(), source, target, stop))
    await ticks()
    assert not serving.done()
    stop.set()
    async with asyncio.timeout(DEADLINE_S):
        await serving
    for fd in (source, there, here, target):
        os.close(fd)


async def test_a_fault_in_reading_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(Peer, "receive", broken)
    with pytest.raises(ZeroDivisionError):
        await served(HELLO)
