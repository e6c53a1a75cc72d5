"""A process that forks while a session runs: neither side hangs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.deadlines import HANG_S

PROGRAM = """
import asyncio, os, threading
import tertulia
from tertulia.testing import ScriptedModel, call, say

@tertulia.tool
def work() -> str:
    return "done"

def ask() -> str:
    async def main() -> str:
        model = ScriptedModel([say("", call("work")), "fine"])
        async with tertulia.Session.start(tertulia.Settings(model=model, tools=[work])) as session:
            return (await session.root.message("hi")).text
    return asyncio.run(main())

async def parent() -> None:
    model = ScriptedModel([say("", call("work")), "before", say("", call("work")), "after"])
    async with tertulia.Session.start(tertulia.Settings(model=model, tools=[work])) as session:
        assert (await session.root.message("one")).text == "before"
        pid = os.fork()
        if pid == 0:
            # A loop is running here too, in the middle of a step: a thread has none.
            said = []
            thread = threading.Thread(target=lambda: said.append(ask()))
            thread.start()
            thread.join()
            os._exit(0 if said == ["fine"] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert (await session.root.message("two")).text == "after"

asyncio.run(parent())
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system cannot fork")
def test_a_fork_after_the_start_hangs_neither_the_parent_nor_the_child() -> None:
    """H7"""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, timeout=HANG_S, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
