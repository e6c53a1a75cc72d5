"""A disk that is full or broken: one clear error for whoever asked, and nothing acknowledged that is not stored.

First at every call of a turn, as seen by the session itself. Then by a client of the app-server, whose other session
must not notice.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from tests.contract.app_server import Server
from tests.durability.afterlife import lines_of
from tests.durability.children import Children
from tests.durability.families import judged, on_all, points_of
from tests.durability.serving import serving
from tests.rollout.faults import needs_strace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.xdist_group("kills"), needs_strace]

FAULTS = (
    ("pwrite64", "ENOSPC", "", 4),
    ("pwrite64", "EIO", "", 9),
    ("pwrite64", "ENOSPC", "+", 9),
    ("fdatasync", "EIO", "", 3),
    ("ftruncate", "EIO", "", 1),
    ("openat", "EMFILE", "", 12),
)
"""The call, the error, whether it stays from then on, and every how many'th place is enough for `make test`."""


@pytest.mark.parametrize(("name", "error", "ever_after", "stride"), FAULTS)
def test_a_call_that_fails_costs_one_clear_error_and_nothing_that_was_acknowledged(
    families: SimpleQueue[Children], room: Path, name: str, error: str, ever_after: str, stride: int
) -> None:
    """F5, F6, F8, target 4: at each place; whoever comes back later finds all that was told."""
    fail_at(families, room, (name, error, ever_after), stride)


@pytest.mark.torture
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ever_after", ["", "+"])
@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EDQUOT"])
@pytest.mark.parametrize("name", ["pwrite64", "fdatasync", "fsync", "ftruncate", "openat", "write", "unlink", "rename"])
def test_every_call_that_fails_costs_one_clear_error_and_nothing_that_was_acknowledged(
    families: SimpleQueue[Children], room: Path, name: str, error: str, ever_after: str
) -> None:
    """F5, F6, F8, target 4."""
    fail_at(families, room, (name, error, ever_after), 1)


def fail_at(families: SimpleQueue[Children], room: Path, fault: tuple[str, str, str], stride: int) -> None:
    name, error, ever_after = fault
    points = [k for call, k in points_of(families, room, "turn") if call == name][::stride]
    felt: list[int] = []

    def once(children: Children, number: int) -> str | None:
        k = points[number]
        folder = room / str(k)
        inject = ("-e", f"inject={name}:error={error}:when={k}{ever_after}", "-e", f"trace={name}")
        if children.run("live", folder, "turn", "full", *inject) != 0:
            return f"{fault} at {k}: {(folder / 'verdict').read_text()}"
        answers = [json.loads(line) for line in lines_of(folder / "told")]
        failures = [line["because"] for line in answers if "failed" in line]
        felt.extend([k] if failures else [])
        for message in failures:
            assert str(folder / "home") in message
            assert ";" in message, "it does not say what to do"
        if name in ("fdatasync", "fsync") and failures:
            first = next(at for at, line in enumerate(answers) if "failed" in line)
            assert [line for line in answers[first:] if "event" in line or "reply" in line] == []
        return judged(children, folder, f"{fault} at {k}")

    wrong = on_all(families, once, len(points))
    sys.stdout.write(f"{len(points) - len(wrong)}/{len(points)} {fault} cost nothing; {len(felt)} were felt\n")
    assert not wrong, "\n".join(wrong)
    assert felt or name in ("openat", "unlink", "write", "rename", "fsync")


# ── a client's view ──────────────────────────────────────────────────────────────────────────────────────────────


@contextlib.asynccontextmanager
async def fault_injected(server: Server, file: Path, fault: str) -> AsyncIterator[None]:
    """While this lasts, the disk does that to one file and its journal."""
    name = fault.partition(":")[0]
    strace = await asyncio.create_subprocess_exec(
        "strace", "-f", "-p", str(server.process.pid), "-P", str(file), "-P", f"{file}-wal", "-e", f"trace={name}",
        "-e", f"inject={fault}", stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert strace.stderr is not None
    assert b"attached" in await strace.stderr.readline()
    try:
        yield
    finally:
        strace.send_signal(signal.SIGINT)
        await strace.communicate()


def delivered(server: Server, session_id: str) -> list[dict[str, Any]]:
    return [event for event in server.events if event["session_id"] == session_id and event["seq"] is not None]


@pytest.mark.parametrize(("error", "advice"), [("ENOSPC", "make room"), ("EIO", "check it")])
async def test_a_full_disk_fails_the_task_and_nothing_else_and_it_goes_on_when_there_is_room(
    tmp_path: Path, error: str, advice: str
) -> None:
    """F5, F6, target 4: the other session does not notice; what was delivered is stored."""
    async with serving(tmp_path) as server:
        poor = (await server.call("session/info"))["session_id"]
        rich = (await server.call("session/start"))["session_id"]
        file = tmp_path / "home" / "sessions" / f"{poor}.db"
        assert (await server.say("before"))["status"] == "completed"
        seen = len(delivered(server, poor))
        async with fault_injected(server, file, f"pwrite64:error={error}"):
            for text in ("one", "two"):
                answer = await server.say(text)
                assert answer["status"] == "failed"
                assert answer["error"]["code"] == "storage_error"
                assert str(file) in answer["error"]["message"]
                assert advice in answer["error"]["message"]
            assert (await server.say("you?", session_id=rich))["status"] == "completed"
            assert len(delivered(server, poor)) == seen, "something was acknowledged that cannot be stored"
        assert (await server.say("after"))["status"] == "completed"
        assert await server.end() == 0
    for session_id in (poor, rich):
        stored = await exported(tmp_path, session_id)
        assert [event["seq"] for event in stored] == list(range(1, len(stored) + 1))
        by_seq = {event["seq"]: event for event in stored}
        for event in delivered(server, session_id):
            assert by_seq[event["seq"]] == event
    async with serving(tmp_path, "--resume", poor) as server:
        texts = [
            entry["text"] for entry in (await server.call("conversation/history", conversation_id="root"))["entries"]
        ]
        assert texts[:2] == ["before", "yes"]
        assert texts[-2:] == ["after", "yes"]
        assert (await server.say("again"))["status"] == "completed"


async def test_after_a_failed_flush_nothing_is_acknowledged_until_the_session_is_resumed(tmp_path: Path) -> None:
    """F6: also when the disk says that it is well again."""
    async with serving(tmp_path, "-c", 'durability="full"') as server:
        poor = (await server.call("session/info"))["session_id"]
        rich = (await server.call("session/start"))["session_id"]
        file = tmp_path / "home" / "sessions" / f"{poor}.db"
        assert (await server.say("before"))["status"] == "completed"
        seen = len(delivered(server, poor))
        async with fault_injected(server, file, "fdatasync:error=EIO:when=1"):
            answers = [await server.say("during")]
        answers += [await server.say("after"), await server.say("long after")]
        for answer in answers:
            assert answer["status"] == "failed"
            assert str(file) in answer["error"]["message"]
            assert "resume" in answer["error"]["message"]
        assert len(delivered(server, poor)) == seen
        assert (await server.say("you?", session_id=rich))["status"] == "completed"
        assert await server.end() == 0
    async with serving(tmp_path, "--resume", poor) as server:
        assert (await server.say("again"))["status"] == "completed"
        texts = [
            entry["text"] for entry in (await server.call("conversation/history", conversation_id="root"))["entries"]
        ]
        assert texts[:2] == ["before", "yes"]
        assert texts[-2:] == ["again", "yes"]


async def exported(folder: Path, session_id: str) -> list[dict[str, Any]]:
    """The events of a stored session."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tertulia", "sessions", "export", session_id,
        cwd=folder, env={**os.environ, "TERTULIA_HOME": str(folder / "home")}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    lines = [json.loads(line) for line in out.splitlines()]
    return [line["event"] for line in lines if line.get("kind") == "event"]
