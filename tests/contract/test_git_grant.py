"""`allow_git`, by a program that uses the public API: a right that is off, and narrows."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import tertulia
from tertulia.testing import ScriptedModel, call
from tests.deadlines import HANG_S
from tests.sandbox.confined import need

COMMIT = call("shell", {"command": ["git", "commit", "-am", "by the agent"]})


@pytest.fixture
def work(tmp_path: Path) -> Path:
    need("bubblewrap")
    work = tmp_path / "work"
    work.mkdir()
    for line in ("init -q", "config user.name Ada", "config user.email a@b.c", "commit -q --allow-empty -m first"):
        subprocess.run(["git", *line.split()], cwd=work, check=True, timeout=HANG_S)
    (work / "file").write_text("one")
    subprocess.run(["git", "add", "."], cwd=work, check=True, timeout=HANG_S)
    return work


def subjects(work: Path) -> list[str]:
    ran = subprocess.run(
        ["git", "log", "--format=%s"], cwd=work, check=True, capture_output=True, text=True, timeout=HANG_S
    )
    return ran.stdout.split("\n")[:-1]


@pytest.mark.parametrize("granted", [True, False])
async def test_a_session_that_grants_git_has_its_agent_commit(work: Path, granted: bool) -> None:
    """Issue 19, 10"""
    model = ScriptedModel([COMMIT, "Done."])
    async with tertulia.Session.start(tertulia.Settings(model=model, cwd=str(work), allow_git=granted)) as session:
        await session.root.message("Commit it.")
    seen = repr(model.requests[-1].items)
    assert subjects(work) == (["by the agent", "first"] if granted else ["first"])
    assert ("`.git` is protected" in seen) is not granted
    assert ("<git_access>" in seen) is granted


async def test_it_narrows(work: Path) -> None:
    """Off is less than on: a conversation can do without, and none gets what its session has not."""
    without = tertulia.Settings(model=ScriptedModel([]), cwd=str(work))
    async with tertulia.Session.start(without) as session:
        asking = await session.open(allow_git=True)
        (cut,) = (await asking.context()).narrowed
        assert (cut.field, cut.asked, cut.given) == ("allow_git", True, False)
    model = ScriptedModel([COMMIT, "Refused."])
    async with tertulia.Session.start(tertulia.Settings(model=model, cwd=str(work), allow_git=True)) as session:
        plain = await session.open(allow_git=False)
        await plain.message("Commit it.")
    assert subjects(work) == ["first"]
