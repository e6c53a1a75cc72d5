"""Nested repositories under attack: raced, hidden behind decoys, walked around. As root and as an ordinary user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tertulia.events.clock import SystemClock
from tertulia.sandbox.sandbox import Sandbox
from tests.deadlines import HANG_S
from tests.sandbox.confined import DEADLINE_S, ROOT, Place, as_ordinary_user, need, ordinary_python

GIT = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}


def as_ourselves(attempts: int, timeout_s: float) -> list[dict]:
    line = [sys.executable, "-m", "tests.sandbox.racing", str(attempts)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    ran = subprocess.run(
        line, capture_output=True, text=True, timeout=timeout_s, check=False, env=environment, cwd=ROOT
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def as_somebody_else(attempts: int, timeout_s: float) -> list[dict]:
    python = ordinary_python()
    if python is None:
        pytest.skip("not root, or no Python that an ordinary user can run: only one kind of user was tried")
    ran = as_ordinary_user(python, "-m", "tests.sandbox.racing", str(attempts), timeout=timeout_s)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("run", [as_ourselves, as_somebody_else])
@pytest.mark.parametrize("attempts", [12, pytest.param(300, marks=[pytest.mark.torture, pytest.mark.timeout(600)])])
def test_s2_a_background_command_that_swaps_parents_wins_nothing(run, attempts: int) -> None:
    """S2: nothing appears outside, no nested config or hook is writable; each command holds or is refused."""
    need("bubblewrap")
    for result in run(attempts, 50 if attempts < 50 else 500):
        assert result["hostile"], "the hostile command ended too early"
        assert result["ran"] + result["refused"] == attempts
        assert result["ran"] > 0
        assert result["harm"] == []


def git(*line: str, cwd: Path) -> str:
    ran = subprocess.run(["git", *line], cwd=cwd, env=GIT, check=True, capture_output=True, text=True, timeout=HANG_S)
    return ran.stdout


@pytest.mark.parametrize("decoys", ["a few repositories", "many folders"])
async def test_s3_decoys_of_an_earlier_process_hide_nothing(place: Place, sandbox: Sandbox, decoys: str) -> None:
    """S3: 36 folders with a `.git`, or 1,101 folders, sorted before the user's repository."""
    config = place.root / "vendor" / "lib" / ".git" / "config"
    config.parent.mkdir(parents=True)
    config.write_text("[core]\n")
    for number in range(36 if decoys == "a few repositories" else 1_101):
        folder = place.root / f"a{number:04}"
        folder.mkdir()
        if decoys == "a few repositories":
            (folder / ".git").mkdir()
    script = "echo '[core] fsmonitor=evil' >> vendor/lib/.git/config; mkdir vendor/lib/.git/hooks; echo done"
    finished = await sandbox.run(place.command("sh", "-c", script), timeout_s=DEADLINE_S)
    assert finished.output.text().endswith("done\n")
    assert config.read_text() == "[core]\n"
    assert [path.name for path in config.parent.iterdir()] == ["config"]


ATTACK = """
import os, sys
def attempt(act):
    try: act()
    except OSError: return
    print("did", act)
for store in sys.argv[1:]:
    for name in ("config", "config.worktree", "commondir", "hooks/post-checkout", "info/attributes", "evil"):
        try:
            with open(f"{store}/{name}", "a") as file: file.write("[core] fsmonitor=evil")
            print("wrote", store, name)
        except OSError: pass
    for act in (lambda: os.rename(store, "gone"), lambda: os.rename(store + "/hooks", store + "/x")):
        try: act(); print("renamed", store)
        except OSError: pass
"""


async def attack(place: Place, sandbox: Sandbox, *stores: str) -> str:
    finished = await sandbox.run(place.python(ATTACK, *stores), timeout_s=DEADLINE_S)
    assert finished.exit_code == 0, finished.output.text()
    return finished.output.text()


async def test_s4_the_common_store_of_a_worktree_is_protected(place: Place, sandbox: Sandbox) -> None:
    """S4: the top `.git` is a file that names a worktree of a store inside the root."""
    store = place.root / "stores" / "main"
    git("init", "--quiet", "--bare", str(store), cwd=place.root)
    own = store / "worktrees" / "top"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n")
    (own / "HEAD").write_text("ref: refs/heads/main\n")
    (own / "gitdir").write_text(f"{place.root}/.git\n")
    (place.root / ".git").write_text("gitdir: stores/main/worktrees/top\n")
    assert git("rev-parse", "--git-common-dir", cwd=place.root).strip() == str(store)
    assert await attack(place, sandbox, "stores/main", "stores/main/worktrees/top") == ""
    assert "renamed" not in await attack(place, sandbox, "stores")
    assert (place.root / "stores" / "main" / "config").exists()


async def test_s4_bare_repositories_and_what_nested_files_name_are_protected(place: Place, sandbox: Sandbox) -> None:
    """S4: any bare repository in the root, the target of a nested `.git` file, and of a nested `.git` link."""
    git("init", "--quiet", "--bare", "deep/bare", cwd=place.root)
    for kind in ("file", "link"):
        (place.root / "sub" / kind).mkdir(parents=True)
        (place.root / "kept" / kind / "hooks").mkdir(parents=True)
        (place.root / "kept" / kind / "config").write_text("[core]\n")
    (place.root / "sub" / "file" / ".git").write_text("gitdir: ../../kept/file\n")
    (place.root / "sub" / "link" / ".git").symlink_to("../../kept/link")
    assert await attack(place, sandbox, "deep/bare", "kept/file", "kept/link") == ""
    script = "rm sub/link/.git; mv kept x; mv sub/file/.git x; echo y > kept/y"
    finished = await sandbox.run(place.command("sh", "-c", script), timeout_s=DEADLINE_S)
    assert finished.exit_code == 0
    assert (place.root / "sub" / "link" / ".git").is_symlink()
    assert (place.root / "kept" / "y").exists()


async def test_s4_a_store_that_a_command_made_stays_usable(place: Place, sandbox: Sandbox) -> None:
    """S4: `git init`, a submodule's store or a worktree begun by one command goes on with the next."""
    environment = {**GIT, "HOME": "/tmp", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b"}
    environment |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    for line in (
        "git init -q new && git init -q --bare bare",
        "cd new && echo x > x && git add x && git commit -qm one && git push -q ../bare HEAD:main",
        "cd new && git worktree add -q ../tree && cd ../tree && echo y > y && git add y && git commit -qm two",
        "cd tree && git log --format=%s | tr '\\n' ' '",
    ):
        finished = await sandbox.run(place.command("sh", "-c", line, environment=environment), timeout_s=DEADLINE_S)
        assert finished.exit_code == 0, finished.output.text()
    assert finished.output.text() == "two one "


async def test_s3_a_command_cannot_pass_the_users_repository_off_as_its_own(place: Place) -> None:
    """S3: moved, moved back, hidden in what it made itself, replaced by its own: what is the user's stays so."""
    need("bubblewrap")
    config = place.root / "vendor" / "lib" / ".git" / "config"
    config.parent.mkdir(parents=True)
    config.write_text("[core]\n")
    runner = Sandbox(clock=SystemClock())
    try:
        for line in (
            "mkdir -p mine/.git; echo own > mine/.git/config; mv vendor mine/v",
            "mv mine/.git mine/v/.git; mv mine/v/lib mine/lib; mkdir -p mine/v/lib; cp -r mine/lib/.git mine/v/lib",
            "cd mine/lib; echo evil >> .git/config; mv ../v/lib/.git .git; rm -rf .git; ln .git/config ../../h",
            "mkdir -m 700 shut; mv mine/lib shut/lib; chmod 000 shut",
            "chmod 700 shut; echo evil >> shut/lib/.git/config; echo done",
        ):
            await runner.run(place.command("sh", "-c", line), timeout_s=DEADLINE_S)
        place.root.joinpath("shut").chmod(0o700)
        assert (place.root / "shut" / "lib" / ".git" / "config").read_text() == "[core]\n"
        assert not (place.root / "h").exists()
    finally:
        await runner.close()
