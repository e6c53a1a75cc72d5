"""Whoever shares, plants, locks or misnames what lies in a home gets a clear answer, and nobody loses anything."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.errors import NotFoundError, StorageError, TertuliaError
from tertulia.session.session import Session
from tertulia.testing import ScriptedModel
from tests.contract.app_server import Refused, surroundings
from tests.deadlines import HANG_S
from tests.durability.serving import serving
from tests.forked import run_program
from tests.rollout.sqlite.test_sqlite_store_places import UNSHARE, cannot_mount

pytestmark = pytest.mark.slow

BAD_IDS = (
    *("../x", "..", ".", "/etc/passwd", "sessions/../../x", "a\0b", "x" * 4096, "index", "\u2028", "..%2fx"),
    *("00000000-0000-4000-8000-00000000000", "00000000-0000-4000-8000-000000000000/../x"),
    *("00000000-0000-4000-8000-000000000000\n", "A0000000-0000-4000-8000-000000000000", "-rf", "~", "*", ""),
)
NOBODY = "00000000-0000-4000-8000-000000000000"


def run(
    folder: Path, *arguments: str, before: tuple[str, ...] = (), input: str = ""
) -> subprocess.CompletedProcess[str]:
    """The program, in a process of its own."""
    if not before:
        return run_program(*arguments, cwd=folder, env=environment(folder), input=input)
    return subprocess.run(
        [*before, sys.executable, "-m", "tertulia", *arguments],
        cwd=folder, env=environment(folder), input=input, capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip


def environment(folder: Path) -> dict[str, str]:
    return {**surroundings(folder / "user"), "TERTULIA_HOME": str(folder / "home")}


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything there is, and what is in it."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() and not path.is_symlink() else None
        for path in sorted(folder.rglob("*"))
    }


async def lived(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A stored session of one round."""
    monkeypatch.setenv("TERTULIA_HOME", str(folder / "home"))
    async with Session.start(tertulia.Settings(model=ScriptedModel(["hello"]))) as session:
        await session.root.message("hi")
    return session.id


# ── two processes ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_second_process_is_refused_by_every_verb_and_the_first_goes_on(tmp_path: Path) -> None:
    """F9: it is told which session, which file and which process; looking is free; a dead owner is none."""
    async with serving(tmp_path) as server:
        id = (await server.call("session/info"))["session_id"]
        file = tmp_path / "home" / "sessions" / f"{id}.db"
        assert (await server.say("one"))["status"] == "completed"
        verbs = (
            ("resume", id),
            ("exec", "resume", id, "hi"),
            ("app-server", "--resume", id),
            ("sessions", "rm", "--yes", id),
        )
        for verb in verbs:
            ran = await asyncio.to_thread(run, tmp_path, *verb)
            assert ran.returncode == 1, (verb, ran)
            for word in (id, str(file), str(server.process.pid)):
                assert word in ran.stderr, verb
            assert "Traceback" not in ran.stderr
        async with serving(tmp_path) as other:
            with pytest.raises(Refused, match="in use") as refused:
                await other.call("session/resume", session_id=id)
            assert refused.value.code == "busy"
            assert (await other.say("I am fine"))["status"] == "completed"
        for look in ("export", "show", "replay"):
            ran = await asyncio.to_thread(run, tmp_path, "sessions", look, id)
            assert (ran.returncode, "yes" in ran.stdout or look == "show") == (0, True), (look, ran)
        assert (await server.say("two"))["status"] == "completed"
        server.process.send_signal(signal.SIGKILL)
        await server.process.wait()
        ran = await asyncio.to_thread(run, tmp_path, "exec", "resume", "-m", "scripted/script.json", id, "three")
        assert (ran.returncode, ran.stdout.strip()) == (0, "yes"), ran
        result = await asyncio.to_thread(run, tmp_path, "sessions", "export", id)
        assert [word for word in ("one", "two", "three") if f'"text":"{word}"' not in result.stdout] == []


# ── a home that cannot be written ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(bool(reason := cannot_mount()), reason=reason or "")
async def test_a_home_that_cannot_be_written_is_a_clear_error_and_can_still_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F7: mounted read-only, because modes do not bind root."""
    id = await lived(tmp_path, monkeypatch)
    before = tree(tmp_path / "home")
    home = str(tmp_path / "home")
    mount = f'mount --bind "{home}" "{home}" && mount -o remount,bind,ro "{home}" && exec "$@"'
    inside = (*UNSHARE, "sh", "-c", mount, "sh")
    for verb in (("exec", "-m", "scripted/tour", "hi"), ("exec", "resume", id, "hi"), ("sessions", "rm", "--yes", id)):
        ran = run(tmp_path, *verb, before=inside)
        assert ran.returncode == 1, (verb, ran)
        assert home in ran.stderr, verb
        assert "Traceback" not in ran.stderr
        assert "TERTULIA_HOME" in ran.stderr, verb
    for look in (("sessions", "ls"), ("sessions", "export", id), ("sessions", "show", id)):
        ran = run(tmp_path, *look, before=inside)
        assert (ran.returncode, ran.stderr) == (0, ""), look
    assert tree(tmp_path / "home") == before


# ── modes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_nobody_else_can_read_anything_whatever_the_umask(tmp_path: Path) -> None:
    """E7: while it lives, after it was killed, and what commands add."""
    live = (
        "import asyncio, os, tertulia; from tertulia.testing import ScriptedModel\n"
        "async def main():\n"
        "    async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel(['a', 'b']))) as session:\n"
        "        await session.root.message('hi'); os.write(1, session.id.encode()); os.kill(os.getpid(), 9)\n"
        "os.umask(0); asyncio.run(main())\n"
    )
    env = {**environment(tmp_path), "TERTULIA_HOME": str(tmp_path / "a" / "home")}
    ran = subprocess.run([sys.executable, "-c", live], env=env, capture_output=True, timeout=HANG_S, check=False)
    id = ran.stdout.decode()
    assert ran.returncode == -signal.SIGKILL
    assert {path.suffix for path in (tmp_path / "a").rglob(f"{id}*")} == {".db", ".db-wal", ".db-shm"}
    assert (tmp_path / "a" / "home" / "sessions" / f"owners-{id[-1]}.lock").exists()
    assert shared(tmp_path / "a") == []
    out = str(tmp_path / "a" / "out")
    after = (
        "import os, sys; from tertulia.cli.main import main; os.umask(0)\n"
        f"sys.exit(main(['sessions', 'ls']) or main(['sessions', 'export', {id!r}, '-o', {out!r}]))"
    )
    subprocess.run([sys.executable, "-c", after], env=env, check=True, timeout=HANG_S, stdout=subprocess.DEVNULL)
    assert (tmp_path / "a" / "out").stat().st_size
    assert list((tmp_path / "a").rglob("index.db"))
    assert shared(tmp_path / "a") == []


def shared(folder: Path) -> list[str]:
    """What others could read or write."""
    return [str(path) for path in (folder, *folder.rglob("*")) if stat.S_IMODE(path.lstat().st_mode) & 0o077]


# ── what somebody planted ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ending", [".db", ".db-wal", ".db-shm", ".lock", ".new"])
async def test_a_planted_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    """E7: what it points to is as it was, other sessions go on, and the error names the link."""
    id, other = await lived(tmp_path, monkeypatch), await lived(tmp_path, monkeypatch)
    while other[-1] == id[-1]:  # they share a file of locks, and so its refusal
        other = await lived(tmp_path, monkeypatch)
    folder = tmp_path / "home" / "sessions"
    victim = tmp_path / "victim"
    if ending == ".db":
        (folder / f"{id}.db").rename(victim)
    else:
        victim.write_bytes(b"precious")
    if ending == ".new":
        (folder / f"{id}.db").unlink()
    planted = folder / (f"owners-{id[-1]}.lock" if ending == ".lock" else f"{id}{ending}")
    planted.symlink_to(victim)
    before, precious = victim.stat(), victim.read_bytes()
    with pytest.raises(TertuliaError) as refused:
        async with Session.resume(id, tertulia.Settings(model=ScriptedModel(["never"]))):
            raise AssertionError("entered")
    if ending != ".new":
        assert isinstance(refused.value, StorageError)
        assert str(planted) in refused.value.message
    for command in ("ls", "sweep", "export", "show", "rm"):
        ran = run(tmp_path, "sessions", command, *([id] if command not in ("ls", "sweep") else []))
        assert "Traceback" not in ran.stderr, command
        assert "precious" not in ran.stdout
        if ending == ".db" and command in ("export", "show"):
            assert "hello" not in ran.stdout, "it was read through the link"
    assert victim.read_bytes() == precious
    assert (victim.stat().st_mode, victim.stat().st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
    async with Session.resume(other, tertulia.Settings(model=ScriptedModel(["fine"]))) as session:
        assert (await session.root.message("and you?")).text == "fine"


@pytest.mark.parametrize("what", ["sessions", "index.db"])
async def test_a_planted_folder_or_index_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """E7"""
    home, victim = tmp_path / "home", tmp_path / "victim"
    if what == "sessions":
        home.mkdir(mode=0o700)
        victim.mkdir()
        (home / "sessions").symlink_to(victim)
        monkeypatch.setenv("TERTULIA_HOME", str(home))
        with pytest.raises(StorageError, match="is a link"):
            async with Session.start(tertulia.Settings(model=ScriptedModel(["never"]))):
                raise AssertionError("entered")
        assert list(victim.iterdir()) == []
        return
    await lived(tmp_path, monkeypatch)
    run(tmp_path, "sessions", "ls")
    (index,) = home.rglob("index.db")
    index.unlink()
    victim.write_bytes(b"precious")
    index.symlink_to(victim)
    ran = run(tmp_path, "sessions", "ls")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "hi" in ran.stdout
    assert victim.read_bytes() == b"precious"


# ── names that are none ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("id", BAD_IDS)
async def test_what_is_no_id_is_refused_in_python_and_touches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, id: str
) -> None:
    """E9"""
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path / "home"))
    with pytest.raises(NotFoundError):
        async with Session.resume(id):
            raise AssertionError("entered")
    assert tree(tmp_path) == {}


async def test_what_is_no_id_is_refused_by_the_server_and_touches_nothing(tmp_path: Path) -> None:
    """E9"""
    async with serving(tmp_path) as server:
        (own,) = (await server.call("session/list"))["sessions"]
        await server.say("one")
        before = set(tree(tmp_path))
        for id in (*BAD_IDS, NOBODY, None, 7, [], {}):
            for method in ("session/resume", "session/info", "session/close", "conversation/list"):
                if id is None and method != "session/resume":
                    continue
                with pytest.raises(Refused) as refused:
                    await server.call(method, session_id=id)
                assert refused.value.code in ("invalid_params", "not_found"), (method, id)
                assert len(refused.value.message) < 400
        for id in BAD_IDS:
            for method in ("conversation/history", "conversation/fork", "conversation/close"):
                with pytest.raises(Refused) as refused:
                    await server.call(method, conversation_id=id)
                assert refused.value.code == "not_found", (method, id)
        assert set(tree(tmp_path)) == before
        assert [session["session_id"] for session in (await server.call("session/list"))["sessions"]] == [
            own["session_id"]
        ]


def test_what_is_no_id_is_refused_on_the_command_line_and_touches_nothing(tmp_path: Path) -> None:
    """E9: all verbs in one process; the program itself is run for each in the tests of `apps`."""
    verbs = [
        ["resume", "ID"], ["exec", "resume", "ID", "hi"], ["app-server", "--resume", "ID"],
        *(["sessions", act, "ID"] for act in ("show", "export", "replay", "fork", "rm")),
    ]  # fmt: skip
    script = (
        "import json, sys; from tertulia.cli.main import main\n"
        "for line in sys.argv[1:]:\n"
        "    arguments = json.loads(line); print(json.dumps([arguments, main(arguments)]), flush=True)\n"
    )
    # A name that begins with a dash is an option, and NUL cannot be an argument.
    ids = [id for id in (*BAD_IDS, NOBODY) if not id.startswith("-")]
    calls = [json.dumps([id if word == "ID" else word for word in verb]) for id in ids for verb in verbs]
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "x.db").write_bytes(b"precious")
    (tmp_path / "user").mkdir()
    before = tree(tmp_path)
    ran = subprocess.run(
        [sys.executable, "-c", script, *calls],
        cwd=tmp_path, env=environment(tmp_path), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=HANG_S, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    answers: list[Any] = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("[")]
    assert [code for _, code in answers if code not in (1, 2)] == []
    assert len(answers) == len(calls)
    assert "Traceback" not in ran.stderr
    assert tree(tmp_path) == before
    assert not os.path.lexists(tmp_path / "home" / "sessions")
