"""What a command may use: the limit holds, the host is fine, the ending names the limit. Root and ordinary user."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tertulia.events.clock import SystemClock
from tertulia.sandbox.runner import CommandLimits
from tertulia.sandbox.sandbox import Sandbox
from tests.sandbox.confined import DEADLINE_S, Place, as_ordinary_user, need, ordinary_python

LIMITS = CommandLimits(processes=60, memory_bytes=200 << 20, file_bytes=1 << 20, cpu_s=1)

# Bounded by itself too: a limit that does not hold must not take the machine with it.
BOMB = """
import os, signal
for n in range(1500):
    if os.fork() == 0:
        signal.pause()
print("bombed")
"""
ALLOCATION = "print(len(bytearray(1 << 30)))"
FILE = "dd if=/dev/zero of=big bs=1M count=64 2>&1 && echo written"
SPIN = "while True: pass"


async def meet(folder: Path, tier: Any) -> dict[str, Any]:
    """Each limit, one after the other."""
    place = Place(folder)
    sandbox = Sandbox(tier=tier, clock=SystemClock())
    commands = {
        "processes": place.python(BOMB, place.tag, limits=LIMITS),
        "memory_bytes": place.python(ALLOCATION, limits=LIMITS),
        "file_bytes": place.command("sh", "-c", FILE, limits=LIMITS),
        "cpu_s": place.python(SPIN, limits=LIMITS),
    }
    try:
        found = {}
        for name, command in commands.items():
            finished = await sandbox.run(command, timeout_s=DEADLINE_S)
            found[name] = {"limit": finished.limit, "code": finished.exit_code, "output": finished.output.text()[-300:]}
        found["survivors"] = place.survivors()
        found["written"] = (place.root / "big").stat().st_size
        return found
    finally:
        await sandbox.close()


def judge(found: dict[str, Any]) -> None:
    assert found.pop("survivors") == []
    assert found.pop("written") <= LIMITS.file_bytes
    for name, ending in found.items():
        assert ending["limit"] == name, (name, ending)
        assert ending["code"] != 0
        assert "bombed" not in ending["output"]
        assert "written" not in ending["output"]


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
def test_a19_each_limit_holds_and_is_named(tier: str, tmp_path: Path) -> None:
    """A19: fork bomb, allocation, large file, spinning."""
    need(tier)
    judge(asyncio.run(meet(tmp_path, tier)))


@pytest.mark.slow
def test_a19_each_limit_holds_for_an_ordinary_user() -> None:
    """A19"""
    need("bubblewrap")
    python = ordinary_python()
    if python is None:
        pytest.skip("not root, or no Python that an ordinary user can run: only one kind of user was tried")
    ran = as_ordinary_user(python, "-m", "tests.sandbox.test_sandbox_limits")
    assert ran.returncode == 0, ran.stderr
    judge(json.loads(ran.stdout))


async def test_a_command_within_its_limits_names_none(place: Place, sandbox: Sandbox) -> None:
    finished = await sandbox.run(place.command("sh", "-c", "echo fine; exit 3", limits=LIMITS), timeout_s=DEADLINE_S)
    assert (finished.exit_code, finished.limit) == (3, None)


async def test_without_limits_none_are_set(place: Place, sandbox: Sandbox) -> None:
    unlimited = CommandLimits(processes=None, memory_bytes=None, file_bytes=None, cpu_s=None)
    finished = await sandbox.run(place.command("sh", "-c", "ulimit -d; ulimit -f; ulimit -t", limits=unlimited))
    assert finished.output.text().split() == ["unlimited"] * 3


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(json.dumps(asyncio.run(meet(Path(os.path.realpath(folder)), "bubblewrap"))))
