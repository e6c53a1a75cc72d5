"""Item 14: more sessions than descriptors; at the real limit the next is refused, and those that run lose nothing."""

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
from tertulia.testing import ScriptedModel

def opened():
    return len(os.listdir("/proc/self/fd"))

async def main():
    settings = tertulia.Settings(model=ScriptedModel(["yes"], repeat=True))
    host, refusals = tertulia.Host(settings), []
    for _ in range(200):
        await host.start()
    held = host.sessions
    replies = [await asyncio.gather(*(session.root.message("hi") for session in held)) for _ in range(2)]
    most = opened()
    # What else the process may have open.
    others = [os.open("/dev/null", os.O_RDONLY) for _ in range(180 - most - 50)]
    before = opened()
    for _ in range(3):
        try:
            await host.start()
        except LimitError as error:
            refusals.append(error)
    after = opened()
    replies += [[await session.root.message("hi") for session in held[::20]]]
    entries = [len(await session.root.history()) for session in held]
    for fd in others:
        os.close(fd)
    new = await host.start()
    fresh = (await new.root.message("hello")).status
    forced = [await host.close_session(session) for session in host.sessions]
    await host.close()
    told = {(error.code, error.message.partition(":")[0]) for error in refusals}
    print(json.dumps({
        "replies": [[(reply.status, reply.text) for reply in some] for some in replies], "most": most,
        "refused": len(refusals), "told": sorted(told), "grown": after - before, "entries": entries, "fresh": fresh,
        "forced": forced, "ids": [session.id for session in held],
    }))

raise_limit()
asyncio.run(main())
"""


def test_the_next_session_is_refused_and_those_that_run_go_on(room: Path) -> None:
    """FINDINGS [1, 5]: 200 with a limit of 180; each is written down; when others close theirs there is room again."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=room,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERTULIA_HOME": str(room / "home")},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    answer = json.loads(ran.stdout)
    assert answer["replies"] == [[["completed", "yes"]] * count for count in (200, 200, 10)]
    assert answer["most"] < 180 - 64
    assert answer["refused"] == 3
    assert answer["told"] == [["limit", "no more sessions can be opened"]]
    assert answer["grown"] <= 0, "a refusal leaves nothing open"
    assert answer["entries"] == [6 if place % 20 == 0 else 4 for place in range(200)]
    assert (answer["fresh"], any(answer["forced"])) == ("completed", False)
    stored = {path.stem for path in (room / "home" / "sessions").glob("*.db")} - {"index"}
    assert len(stored) == 201
    assert stored > set(answer["ids"])
    assert {path.suffix for path in (room / "home" / "sessions").iterdir()} == {".db"}
