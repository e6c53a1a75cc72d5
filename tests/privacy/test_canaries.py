"""Nothing that somebody said is on the disk where it may not be: a secret in every place, under every policy.

Real processes with homes of their own say it, and end well, are killed, abort, or find the disk full. Then the homes
are listed, shown, exported, replayed, resumed and forked by further processes. All files, all names of files and all
that was printed is searched in every spelling.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.deadlines import HANG_S
from tests.privacy.afterwards import COMMANDS
from tests.privacy.secrets_told import NEVER_STORED, PLACES, ROOT, Secrets, everything_below, surroundings
from tests.privacy.speaker import TTL_S

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.xdist_group("canaries")]

ENDS = ("normal", "kill", "abort", "full_disk")
STRICT = ("headers_only", "none")
MATRIX = (
    *((f"ttl:{TTL_S}", end) for end in ("normal", "kill")),
    *((policy, end) for policy in STRICT for end in ENDS),
    *((f"switched:{policy}", end) for policy in STRICT for end in ("normal", "kill")),
    *((f"strict_child:{policy}", end) for policy in STRICT for end in ("normal", "kill")),
    *((f"strict_caller:{policy}", end) for policy in STRICT for end in ("normal", "kill")),
)
CONTROLS = (("full", "normal"), ("full", "kill"), ("strict_child:full", "normal"), ("strict_caller:full", "normal"))


class Told:
    """One run of the speaker, and what was left of it."""

    def __init__(self, folder: Path, policy: str, end: str) -> None:
        self.folder = folder / f"{policy.replace(':', '-')}-{end}"
        self.secrets = Secrets(f"{policy} {end}")
        for name in ("home", "user", "tmp"):
            (self.folder / name).mkdir(parents=True)
        place = folder / "elsewhere" / self.secrets["file_name"]
        place.mkdir(parents=True)
        (place / "output.txt").write_text(self.secrets["command_output"])
        (place / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + self.secrets["picture"].encode())
        ran = subprocess.run(
            [sys.executable, "-m", "tests.privacy.speaker"],
            cwd=self.folder / "user",
            env=surroundings(self.folder),
            input=f"{policy} {end}\t{policy}\t{end}\t{place}\n".encode(),
            capture_output=True,
            timeout=HANG_S,
            check=False,
        )
        self.code, self.out, self.log = ran.returncode, ran.stdout.decode(), ran.stderr.decode()
        self.session_id = self.out.split("\n")[0]
        self.ended = time.monotonic()
        # What was logged before a policy became strict is out of anybody's reach.
        self.printed = self.out if policy.startswith("switched") else self.out + self.log

    def found(self) -> dict[str, list[str]]:
        return self.secrets.found(everything_below(self.folder) + self.printed.encode())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Told]:
    folder = tmp_path_factory.mktemp("canaries")
    with ThreadPoolExecutor(2) as pool:
        run = pool.map(lambda case: Told(folder, *case), [*MATRIX, *CONTROLS])
        return dict(zip([*MATRIX, *CONTROLS], run, strict=True))


@pytest.fixture(scope="module")
def before(runs: dict[tuple[str, str], Told]) -> dict[tuple[str, str], dict[str, list[str]]]:
    """What was found as the processes left it."""
    return {case: run.found() for case, run in runs.items()}


@pytest.fixture(scope="module")
def after(
    runs: dict[tuple[str, str], Told], before: dict[tuple[str, str], dict[str, list[str]]]
) -> dict[tuple[str, str], dict[str, list[str]]]:
    """What was found when everything that can be done with a session was done. By then what has a ttl has expired."""
    assert all(time.monotonic() - run.ended > TTL_S for (policy, _), run in runs.items() if policy.startswith("ttl"))
    folder = next(iter(runs.values())).folder
    text = "".join(f"{run.folder}\t{run.session_id}\n" for run in runs.values())
    ran = subprocess.run(
        [sys.executable, "-m", "tests.privacy.afterwards"],
        cwd=ROOT,
        env=surroundings(folder),
        input=text.encode(),
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    return {case: run.found() for case, run in runs.items()}


def test_every_run_ended_as_it_was_meant_to(runs: dict[tuple[str, str], Told]) -> None:
    """A secret that was never said would never be found."""
    codes = {"normal": 0, "full_disk": 0, "kill": -signal.SIGKILL, "abort": -signal.SIGABRT}
    assert {case: run.code for case, run in runs.items()} == {(p, end): codes[end] for p, end in runs}
    for (_, end), run in runs.items():
        if end == "full_disk":
            assert '"failures": 0' not in run.out


def test_under_full_every_secret_is_found(before: dict[tuple[str, str], dict[str, list[str]]]) -> None:
    """The search finds what is there: in every place but the one of which only a digest is kept."""
    for end in ("normal", "kill"):
        assert set(before["full", end]) == set(PLACES) - set(NEVER_STORED)
    spoken = {"reply", "arguments", "result", "environment", "child_answer", "summary", "published"}
    assert set(before["strict_child:full", "normal"]) == spoken | {"title", "base_instructions", "model_error"}
    assert set(before["strict_caller:full", "normal"]) == spoken | {"prompt", "reasoning", "sent", "plan"}


def test_no_secret_is_found_as_the_process_left_it(
    runs: dict[tuple[str, str], Told], before: dict[tuple[str, str], dict[str, list[str]]]
) -> None:
    """E1, E2, E3, E5, S002-19, target 7."""
    cases = [case for case in MATRIX if not case[0].startswith("ttl")]
    report(cases, before)


def test_no_secret_is_found_after_all_that_can_be_done_with_a_session(
    runs: dict[tuple[str, str], Told], after: dict[tuple[str, str], dict[str, list[str]]]
) -> None:
    """E1, E2, E4, E5: the index, exports, a fork, a second life; and what has expired is gone."""
    for run in runs.values():
        assert len((run.folder / "said-4").read_bytes().splitlines()) > 5, "nothing was exported"
        assert list((run.folder / "home").rglob("index.db"))
        lines = {path: path.read_bytes().splitlines()[-1] for path in run.folder.glob("said-*")}
        # No model can answer there, which `doctor` calls a failure.
        assert {line for line in lines.values() if not line.endswith(b": 0")} == {b"doctor: 1"}
        assert len(lines) == len(COMMANDS)
    report(MATRIX, after)
    assert set(PLACES) - set(NEVER_STORED) == set(after["full", "kill"])


def report(cases: Sequence[tuple[str, str]], found: dict[tuple[str, str], dict[str, list[str]]]) -> None:
    hits = {case: found[case] for case in cases if found[case]}
    searched = len(cases) * len(PLACES)
    sys.stdout.write(f"{searched - sum(map(len, hits.values()))}/{searched} secrets are nowhere\n")
    assert hits == {}
