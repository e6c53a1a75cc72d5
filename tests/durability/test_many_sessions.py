"""Item 14: at the real limit of open files the next session is refused, and those that run lose nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.rollout.faults import ROOT

PROGRAM = """
import asyncio, json, os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (150, 180))
import tertulia
from tertulia.cli.main import raise_limit
from tertulia.errors import LimitError
from tertulia.testing import ScriptedRequest, ScriptedModel, call

def respond(asked):
    return call("shell", {"command": ["echo", "fine"]}) if asked.last_input == "run" else "yes"

def opened():
    return len(os.listdir("/proc/self/fd"))

async def main():
    settings = tertulia.Settings(
        model=ScriptedModel([respond], repeat=True), sandbox="danger-full-access", approval_policy="never"
    )
    host, refusals = tertulia.Host(settings), []
    while not refusals:
        try:
            await host.start()
        except LimitError as error:
            refusals.append(error)
    held = host.sessions
    replies = [await session.root.message("run", message_id="run") for session in held]
    before = opened()
    for _ in range(3):
        try:
            await host.start()
        except LimitError as error:
            refusals.append(error)
    after = opened()
    entries = [len(await session.root.history()) for session in held]
    for session in held[: len(held) // 2]:
        # Those that run have opened more since then: their launchers.
        await host.close_session(session)
    new = await host.start()
    fresh = (await new.root.message("hello")).status
    forced = [await host.close_session(session) for session in host.sessions]
    await host.close()
    told = {(error.code, error.message.partition(":")[0]) for error in refusals}
    print(json.dumps({
        "held": len(held), "replies": [(reply.status, reply.text, reply.tool_calls) for reply in replies],
        "refused": len(refusals), "told": sorted(told), "grown": after - before, "entries": entries, "fresh": fresh,
        "forced": forced, "ids": [session.id for session in held],
    }))

raise_limit()
asyncio.run(main())
"""


def test_the_next_session_is_refused_and_those_that_run_go_on(room: Path) -> None:
    """FINDINGS [1, 5]: each of them runs a command and is written down; when some are closed there is room again."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env={**os.environ, "TERTULIA_HOME": str(room / "home")},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    said = json.loads(ran.stdout)
    # With the limit that the program began with it could have been no more than ten.
    assert said["held"] > 12
    assert said["replies"] == [["completed", "yes", 1]] * said["held"]
    assert said["refused"] == 4
    assert said["told"] == [["limit", "no more sessions can be opened"]]
    assert said["grown"] <= 0, "a refusal leaves nothing open"
    assert said["entries"] == [2] * said["held"]
    assert (said["fresh"], any(said["forced"])) == ("completed", False)
    stored = {path.stem for path in (room / "home" / "sessions").glob("*.db")} - {"index"}
    assert len(stored) == said["held"] + 1
    assert stored > set(said["ids"])
