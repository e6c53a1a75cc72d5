"""The launcher as a process: what it does when the one it works for is gone."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest
from msgspec.structs import replace

from tertulia.events.clock import SystemClock
from tertulia.sandbox.process_tree import descendants
from tertulia.sandbox.sandbox import Sandbox
from tests.deadlines import HANG_S
from tests.sandbox.confined import DEADLINE_S, ROOT, Place, need, tagged
from tests.sandbox.kept import above, is_running

CODE = """
import sys; from tertulia.sandbox.launcher.program import serve
serve(int(sys.argv[1]), int(sys.argv[2]), confines=False)
"""


class Started:
    """A guardian with its launcher, and our ends of their lines."""

    def __init__(self) -> None:
        self.line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.gone, living = os.pipe()
        with theirs:
            line = [sys.executable, "-c", CODE, str(theirs.fileno()), str(living)]
            fds = [theirs.fileno(), living]
            assert (
                subprocess.run(line, env={"PYTHONPATH": str(ROOT / "src")}, pass_fds=fds, check=False).returncode == 0
            )
        os.close(living)
        self.guardian, self.launcher = map(int, os.read(self.gone, 100).split())
        while sum(1 for _ in descendants(self.launcher)) < 4:
            pass

    def ends(self) -> bool:
        """Whether nothing is left before the deadline."""
        poll = select.poll()
        poll.register(self.gone, 0)
        ended = bool(poll.poll(DEADLINE_S * 1000))
        os.close(self.gone)
        return ended


def test_it_ends_with_its_keepers_when_its_line_does() -> None:
    started = Started()
    below = [pid for pid, _ in descendants(started.guardian)]
    assert started.launcher in below
    started.line.close()
    assert started.ends()
    assert [pid for pid in below if is_running(pid)] == []


def test_l5_a_product_that_is_killed_while_it_starts_leaves_no_word_and_nothing_running(tmp_path: Path) -> None:
    """L5: nobody reads any more which the guardian and the launcher are."""
    line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    unread, gone = os.pipe()
    os.close(unread)
    still, there = os.pipe()
    with theirs, (tmp_path / "said").open("wb") as output:
        started = [sys.executable, "-c", CODE, str(theirs.fileno()), str(gone)]
        fds = [theirs.fileno(), gone, there]
        subprocess.run(started, env={"PYTHONPATH": str(ROOT / "src")}, pass_fds=fds, stderr=output, check=True)
    os.close(gone)
    os.close(there)
    poll = select.poll()
    poll.register(still, 0)
    assert not poll.poll(100), "it serves, as long as its line is there"
    line.close()
    assert poll.poll(DEADLINE_S * 1000), "something still runs"
    os.close(still)
    assert (tmp_path / "said").read_bytes() == b""


def test_a_signal_from_the_terminal_is_not_meant_for_it() -> None:
    started = Started()
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP):
        os.kill(started.launcher, number)
        os.kill(started.guardian, number)
    assert is_running(started.launcher)
    assert is_running(started.guardian)
    started.line.close()
    assert started.ends()


@pytest.mark.parametrize("confines", [False, True])
async def test_s8_an_adopted_child_that_ends_is_buried_at_once(place: Place, confines: bool) -> None:
    """S8: a zombie counts as a process of its user, and a server may leave one every second for days."""
    if confines:
        need("landlock")
    sandbox = Sandbox(tier="landlock" if confines else "bubblewrap", clock=SystemClock())
    command = place.python(ORPHANS, keep_stdin=True)
    if not confines:
        command = replace(command, confinement=replace(command.confinement, mode="danger_full_access"))
    running = await sandbox.start(command)
    tier = sandbox._tier if confines else sandbox._unconfined
    _, launcher = above(tier._launcher)
    await place.until(lambda: b"made" in running._all.output().head)
    assert len(running._all.output().head.split()[:-1]) == 20
    # By those whom the launcher sees: in a namespace their numbers are others.
    await place.until(lambda: all(threads for _, threads in descendants(launcher)))
    assert running.finished is None
    await running.kill()
    assert is_running(launcher)
    await sandbox.close()


ORPHANS = """
import os, sys
for _ in range(20):
    reading, writing = os.pipe()
    if os.fork() == 0:
        orphan = os.fork()
        if orphan:
            print(orphan, flush=True)
            os._exit(0)
        os.close(writing)
        # Ends when it has been orphaned.
        os.read(reading, 1)
        os._exit(0)
    os.wait()
    os.close(writing)
    os.close(reading)
print("made", flush=True)
sys.stdin.read()
"""


def test_it_brings_in_little() -> None:
    """It is forked twice for each command."""
    code = "import sys; import tertulia.sandbox.launcher.program; print(*sys.modules)"
    line = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); {code}"]
    modules = subprocess.run(line, capture_output=True, text=True, timeout=HANG_S, check=True).stdout.split()
    assert not {"asyncio", "msgspec", "subprocess", "logging"} & {*modules}


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
