"""Settings that stand in an agent's home for the time of one run."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tertulia.executors.command.agent_home import memory_folder, settings_layer_file
from tertulia.executors.command.definition import CLAUDE, CODEX, ExecutorDefinition
from tests.sandbox.confined import as_ordinary_user, ordinary_python


@pytest.fixture
def folder() -> Iterator[str]:
    with memory_folder() as folder:
        yield folder


TOLD = 'say "hi"\n\x7f \x01 😀 \\ [table]\nkey = 1'


def test_it_says_what_it_is_told_and_is_gone_afterwards(tmp_path: Path, folder: str) -> None:
    """X-63, S003-31: a file for the agent, and nothing on a disk."""
    place = tmp_path / ".codex"
    place.mkdir()
    with settings_layer_file(CODEX, {"HOME": str(tmp_path)}, TOLD, folder) as name:
        (path,) = place.iterdir()
        assert path.name == f"{name}.config.toml"
        assert path.is_symlink()
        assert tomllib.loads(path.read_text()) == {"developer_instructions": TOLD}
    assert list(place.iterdir()) == []


def test_two_runs_have_two(tmp_path: Path, folder: str) -> None:
    (tmp_path / ".codex").mkdir()
    with (
        memory_folder() as other,
        settings_layer_file(CODEX, {"HOME": str(tmp_path)}, "a", folder) as one,
        settings_layer_file(CODEX, {"HOME": str(tmp_path)}, "b", other) as two,
    ):
        assert one != two
        assert len(list((tmp_path / ".codex").iterdir())) == 2


def test_what_a_killed_process_left_is_taken_away_and_nothing_else(tmp_path: Path, folder: str) -> None:
    """HARDENING C11: nothing is left for good; what is somebody's stays."""
    place = tmp_path / "codex"
    place.mkdir()
    (place / "tertulia-dead.config.toml").symlink_to("/proc/0/fd/7")
    (place / "mine.config.toml").symlink_to("/nowhere")
    (place / "tertulia-file.config.toml").write_text("")
    (place / "tertulia-alive.config.toml").symlink_to(tmp_path)
    for path in place.iterdir():
        os.utime(path, (0, 0), follow_symlinks=False)
    with settings_layer_file(CODEX, {"CODEX_HOME": str(place)}, "told", folder):
        pass
    left = sorted(path.name for path in place.iterdir())
    assert left == ["mine.config.toml", "tertulia-alive.config.toml", "tertulia-file.config.toml"]


def test_a_link_of_another_namespace_of_processes_stays_while_its_agent_may_still_read_it(tmp_path: Path) -> None:
    """X-63: two containers may share a home; from one, nothing is to be seen behind the links of the other."""
    link = tmp_path / "tertulia-other.config.toml"
    link.symlink_to("/proc/0/fd/7")
    made = link.lstat().st_mtime
    for age, stays in ((0, True), (50, True), (70, False)):
        os.utime(link, (made - age, made - age), follow_symlinks=False)
        with (
            memory_folder() as folder,
            settings_layer_file(CODEX, {"CODEX_HOME": str(tmp_path)}, "told", folder) as name,
        ):
            assert name
            assert link.is_symlink() is stays
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "definition",
    [
        CLAUDE,
        ExecutorDefinition(command=("mine",)),
        replace(CODEX, args=("-p", "work")),
        replace(CODEX, args=("--profile=work",)),
        replace(CODEX, command=("codex", "--profile", "work", "exec")),
    ],
)
def test_there_is_none_where_none_is_known_and_where_the_user_has_chosen_one(
    tmp_path: Path, folder: str, definition: ExecutorDefinition
) -> None:
    """X-63: there is room for one only."""
    with settings_layer_file(definition, {"HOME": str(tmp_path)}, "told", folder) as name:
        assert name == ""
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_made_where_there_is_nothing_to_tell_or_no_home_to_write(tmp_path: Path, folder: str) -> None:
    """Nobody gets the settings of a program that he has never run."""
    (tmp_path / "file").write_text("")
    before = len(os.listdir("/proc/self/fd"))
    for text, home, place in (
        ("", tmp_path, folder),
        ("told", tmp_path / "file", folder),
        ("told", tmp_path, folder),
        ("told", tmp_path, ""),
        ("told", tmp_path, str(tmp_path / "absent")),
    ):
        with settings_layer_file(CODEX, {"HOME": str(home)}, text, place) as name:
            assert name == ""
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert len(os.listdir("/proc/self/fd")) == before


SESSION = """
import asyncio, os, sys, tempfile
home = os.environ["HOME"] = tempfile.mkdtemp()
os.mkdir(f"{home}/work")
import tertulia
from tertulia.testing import ScriptedModel

FILE = "import sys; sys.stdin.read(); print(open(sys.argv[1]).read(), open('/proc/self/stat').read().split()[0])"
sandbox = {"workspace-write": []}
executors = {
    "file": {"command": [sys.executable, "-c", FILE], "system": ["{file}"], "sandbox": sandbox},
}

async def main():
    settings = tertulia.Settings(model=ScriptedModel(["Fine."]), cwd=f"{home}/work", executors=executors)
    async with tertulia.Session.start(settings) as session:
        conversation = await session.open(backend="command:file", user_instructions="Be brief.")
        reply = await conversation.message("Go.")
        print(reply.status, reply.text, reply.error)
    print(sorted(name for name in os.listdir("/dev/shm") if name.startswith("tertulia-agent-")))

asyncio.run(main())
"""


def test_the_executor_of_an_ordinary_user_reads_it_too() -> None:
    """X-63, L5: it is in a namespace of users, from which it could not read a descriptor of ours. Every run failed."""
    python = ordinary_python()
    if python is None:
        pytest.skip("not root, or no Python that an ordinary user can run: only one kind of user was tried")
    ran = as_ordinary_user(python, "-c", SESSION)
    assert ran.returncode == 0, ran.stderr
    answer, left = ran.stdout.splitlines()
    assert answer.startswith("completed Be brief. "), answer
    assert left == "[]"
