"""I have a repository with a bug, and want it mended, checked and committed, and to be asked where it matters.

Issue 19, "Done when", journey 3: on a machine with bubblewrap, and on one that has only pip.
"""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.journeys.person import Person, Terminal
from tests.journeys.provider import calls, serving
from tests.sandbox.confined import need

ASKED = "[n]o, with a reason › "
WITHOUT_BUBBLEWRAP = ("unshare", "-m", "sh", "-c", 'mount --bind /dev/null /usr/bin/bwrap && exec "$@"', "sh")
PATCH = """*** Begin Patch
*** Update File: sums.py
@@ def add(a, b):
-    return a - b
+    return a + b
*** End Patch"""


def uses(person: Person, url: str) -> None:
    person.configures(
        f'model = "mine/qwen3"\ntool_profile = "patch"\n[model_providers.mine]\nbase_url = "{url}"\nwire = "chat"\n'
    )


def with_a_bug(person: Person, url: str) -> None:
    """A repository, a failing check, and instructions for agents."""
    person.writes("sums.py", "def add(a, b):\n    return a - b\n")
    person.writes("check.py", "from sums import add\nassert add(2, 2) == 4\nprint('all good')\n")
    person.writes("AGENTS.md", "Run `python3 check.py` before you finish.\n")
    for line in (
        ["init", "-q", "-b", "main"],
        ["config", "user.email", "ana@example.org"],
        ["config", "user.name", "A"],
    ):
        subprocess.run(["git", *line], cwd=person.project, env=person.variables, check=True)
    subprocess.run(["git", "add", "."], cwd=person.project, env=person.variables, check=True)
    uses(person, url)


def is_mended(person: Person) -> bool:
    return "a + b" in (person.project / "sums.py").read_text()


def shows_the_work(screen: Terminal) -> None:
    """Commands as one types them, the patch as lines, and no JSON."""
    for line in ("$ cat sums.py", "return a - b", "-    return a - b", "+    return a + b", "$ python3 check.py"):
        screen.waits_for(line)
    screen.waits_for("all good")


def test_with_bubblewrap_the_bug_is_mended_and_the_commit_is_asked_for(person: Person) -> None:
    need("bubblewrap")
    with serving(
        calls("shell", command=["cat", "sums.py"]),
        calls("apply_patch", input=PATCH),
        calls("shell", command=["python3", "check.py"]),
        calls("shell", command=["git", "commit", "-qam", "Add instead of subtracting"]),
        "Mended and committed.",
    ) as server:
        with_a_bug(person, server.url)
        with person.sits_at("exec", "Mend add() and commit it") as screen:
            shows_the_work(screen)
            # .git is protected: that is said, and the way out is one key away.
            question = screen.waits_for(ASKED)
            assert "run outside the sandbox: git commit -qam" in question
            assert "It failed inside the sandbox" in question
            screen.types("y\n")
            screen.waits_for("Mended and committed.")
            assert screen.ends() == 0
        assert "Run `python3 check.py` before you finish." in server.asked[0].text
    assert is_mended(person)
    log = person.runs("git", "log", "--format=%s")
    assert log.out == "Add instead of subtracting\n"

    # Without a terminal no one can be asked: it says so, and ends with 1.
    leaving = calls("shell", command=["touch", str(person.home / "made")], sandbox_permissions="require_escalated")
    with serving(leaving, "I could not.") as server:
        uses(person, server.url)
        refused = person.tertulia("exec", "Make a file in my home")
        assert refused.code == 1
        assert "-a never" in refused.err or "--sandbox" in refused.err
    assert not (person.home / "made").exists()


def test_without_bubblewrap_the_same_work_is_done_in_landlock_and_it_says_so(person: Person) -> None:
    need("landlock")
    if os.geteuid() != 0 or not os.path.exists("/usr/bin/bwrap"):
        pytest.skip("only root can hide bubblewrap from a program, and only where there is one")
    person.before = WITHOUT_BUBBLEWRAP
    elsewhere = person.home / "elsewhere"
    with serving(
        calls("shell", command=["cat", "sums.py"]),
        calls("apply_patch", input=PATCH),
        calls("shell", command=["python3", "check.py"]),
        calls("shell", command=["sh", "-c", f"echo out > {elsewhere}"]),
        "Mended.",
    ) as server:
        with_a_bug(person, server.url)
        with person.sits_at("exec", "Mend add()") as screen:
            screen.waits_for("landlock")
            shows_the_work(screen)
            screen.waits_for("Mended.")
            assert screen.ends() == 0
    assert is_mended(person)
    assert not elsewhere.exists(), "nothing outside of the project was written"
    assert "landlock" in person.tertulia("doctor").out
