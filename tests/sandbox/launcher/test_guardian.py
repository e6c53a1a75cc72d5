"""L5: whatever of ours is killed, what it had started ends; with a real tree that hides as daemons do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

from tertulia.events.clock import SystemClock
from tests.sandbox.confined import DEADLINE_S, ROOT, need, tagged
from tests.sandbox.kept import is_running

PRODUCT = """
import asyncio, json, sys
from pathlib import Path
from tests.sandbox.confined import DAEMON, Place
from tests.sandbox.kept import above, keeper_of
from tests.sandbox.test_tier_contract import Tried

async def main(tier, folder, tag):
    place = Place(Path(folder))
    tried = Tried(tier, place)
    up = asyncio.Event()
    await tried.sandbox.start(tried.fit(place.python(DAEMON, tag)), lambda data: up.set())
    await up.wait()
    launcher = tried.sandbox._unconfined._launcher if tier == "none" else tried.sandbox._tier._launcher
    guardian, below = above(launcher)
    print(json.dumps({"guardian": guardian, "launcher": below, "keeper": keeper_of(below, tag)}), flush=True)
    await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""
PARTS = ("product", "guardian", "launcher", "keeper")
STORMS = [storm for size in (1, 2, 3, 4) for storm in combinations(PARTS, size)]
ENDS = [storm for storm in STORMS if not {"guardian", "launcher", "keeper"} <= {*storm}]
"""All but those that leave nobody who could end the tree."""
IN_SHORT = [("keeper",), ("launcher", "keeper"), ("guardian", "keeper"), ("product", "launcher", "keeper")]


def storm(tier: str, killed: tuple[str, ...], folder: Path) -> tuple[list[int], dict[str, int]]:
    """Start the tree, kill these at once, by their ids; who carries the tag after a while, and who was above."""
    tag = f"tag{os.urandom(6).hex()}"
    line = [sys.executable, "-c", PRODUCT, tier, str(folder), tag]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    with subprocess.Popen(line, stdout=subprocess.PIPE, env=environment, cwd=ROOT) as product:
        assert product.stdout is not None
        pids = {"product": product.pid, **json.loads(product.stdout.readline())}
        assert len(tagged(tag)) > 1
        # Held first, so that none has a moment between the death of another and its own.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for name in killed:
                os.kill(pids[name], number)
        until = SystemClock().monotonic() + DEADLINE_S
        while (left := tagged_below(tag, product.pid)) and SystemClock().monotonic() < until:
            pass
        product.kill()
    while any(is_running(pid) for pid in pids.values()) and SystemClock().monotonic() < until:
        pass
    return left, {name: pid for name, pid in pids.items() if is_running(pid)}


def tagged_below(tag: str, product: int) -> list[int]:
    """The product has the tag among its own arguments."""
    return [pid for pid in tagged(tag) if pid != product and is_running(pid)]


@pytest.mark.parametrize("killed", IN_SHORT, ids="+".join)
def test_l5_daemons_of_an_unconfined_program_end_whoever_is_killed(killed: tuple[str, ...], tmp_path: Path) -> None:
    """L5: double fork, setsid; SIGKILL to a keeper, and to it with others at once. Nothing above is left either."""
    assert storm("none", killed, tmp_path) == ([], {})


@pytest.mark.torture
@pytest.mark.parametrize("tier", ["none", "landlock"])
@pytest.mark.parametrize("killed", ENDS, ids="+".join)
def test_l5_any_one_that_is_left_ends_the_tree(tier: str, killed: tuple[str, ...], tmp_path: Path) -> None:
    """L5: every way to kill some of the product, the guardian, the launcher and the keeper."""
    need(tier)
    assert storm(tier, killed, tmp_path) == ([], {})


def test_l5_the_guardian_is_met_by_nobody_who_kills_the_products_children(tmp_path: Path) -> None:
    """L5: it is no child of the product, in another session, and its command line does not name us."""
    code = PRODUCT.replace("await asyncio.Event().wait()", "await tried.sandbox.close()")
    report = """
    import os
    print(os.getsid(guardian) != os.getsid(0), Path(f"/proc/{guardian}/cmdline").read_text(), flush=True)
    print(Path(f"/proc/{guardian}/stat").read_text().rpartition(")")[2].split()[1] != str(os.getpid()), flush=True)
"""
    code = code.replace("    await tried.sandbox.close()", f"{report}    await tried.sandbox.close()")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    ran = subprocess.run(
        [sys.executable, "-c", code, "none", str(tmp_path), "tagx"], capture_output=True, text=True, env=environment,
        cwd=ROOT, timeout=DEADLINE_S, check=True,
    )  # fmt: skip
    _, session, parent = ran.stdout.splitlines()
    assert session.startswith("True ")
    assert "tertulia" not in session.replace(sys.executable, "")
    assert parent == "True"
