"""Stored sessions at a shell, each command in a process of its own, by somebody who has only read the public page."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
from pathlib import Path

import pytest

from tests.contract.app_server import program, serving, surroundings, write_script
from tests.contract.test_command_line import run, started
from tests.deadlines import HANG_S

NOWHERE = "00000000-0000-4000-8000-000000000000"
VERBS = [["sessions", "export"], ["sessions", "rm", "-y"], ["exec", "resume"], ["app-server", "--resume"]]


def new_session_with(folder: Path, text: str, *flags: str) -> str:
    """A session in which this was asked; its id."""
    (folder / "told.json").write_text(json.dumps({"replies": ["Noted."], "repeat": True}))
    ran = run(folder, "exec", "--json", "-m", "scripted/told.json", *flags, text)
    assert ran.code == 0
    return ran.lines[0]["thread_id"]


def file_of(folder: Path, id: str) -> Path:
    return folder / "home" / ".local" / "share" / "tertulia" / "sessions" / f"{id}.db"


# ---- looking back


def test_a_session_is_listed_shown_exported_played_again_and_proved(tmp_path: Path) -> None:
    """S002-15, issue 5, 5: every verb knows it by the thread_id of `exec --json`."""
    model = write_script(tmp_path, ["It holds notes."])
    first = run(tmp_path, "exec", "--json", "-m", model, "What is zebra.txt?")
    id = first.lines[0]["thread_id"]
    (listed,) = run(tmp_path, "sessions", "ls", "--json").lines
    assert (listed["session_id"], listed["storage_policy"], listed["in_use"]) == (id, "full", False)
    shown = json.loads(run(tmp_path, "sessions", "show", id, "--json").out)
    (root,) = shown["conversations"]
    assert [message["text"] for message in root["messages"]] == ["What is zebra.txt?", "It holds notes."]
    head, *records = run(tmp_path, "sessions", "export", id).lines
    assert (head["version"], head["session_id"]) == (1, id)
    assert [record["n"] for record in records] == sorted({record["n"] for record in records})
    assert run(tmp_path, "sessions", "replay", id, "--json", "--speed", "1000").out == first.out
    proved = run(tmp_path, "sessions", "replay", id, "--verify", "--json")
    assert [line["outcome"] for line in proved.lines] == ["same"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", proved.lines[0]["ts"])
    assert id[:8] in run(tmp_path, "sessions", "ls", "--search", "ZEBRA").out


def test_it_goes_on_with_its_own_model_and_a_fork_goes_its_own_way(tmp_path: Path) -> None:
    """`exec resume ID [PROMPT]`, `sessions fork`: the new id is all that is printed."""
    id = new_session_with(tmp_path, "One")
    again = run(tmp_path, "exec", "resume", id, "--json", "Two")
    assert again.code == 0
    assert again.lines[0]["thread_id"] == id
    assert again.lines[0]["seq"] > 6
    assert run(tmp_path, "exec", "resume", id).out == "Noted.\n"
    fork = run(tmp_path, "sessions", "fork", id, "--at", "1").out.strip()
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", fork)
    assert run(tmp_path, "exec", "resume", fork, "Three").code == 0

    def said(session: str) -> list[str]:
        shown = json.loads(run(tmp_path, "sessions", "show", session, "--json").out)
        return [message["text"] for message in shown["conversations"][0]["messages"] if message["role"] == "user"]

    assert (said(id), said(fork)) == (["One", "Two"], ["One", "Three"])
    assert run(tmp_path, "sessions", "fork", id, "--at", "9").code == 1
    assert run(tmp_path, "sessions", "rm", id, "--yes").code == 0
    assert not file_of(tmp_path, id).exists()
    assert file_of(tmp_path, fork).exists()


# ---- what is no session, or a broken one


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_an_unknown_session_is_an_error_that_names_it(tmp_path: Path, verb: list[str]) -> None:
    """E9, and nothing is made."""
    ran = run(tmp_path, *verb, NOWHERE)
    assert (ran.code, ran.out) == (1, "")
    assert NOWHERE in ran.err
    assert not file_of(tmp_path, NOWHERE).exists()


def test_a_path_is_no_session(tmp_path: Path) -> None:
    """E9."""
    ran = run(tmp_path, "resume", "../../etc/passwd")
    assert (ran.code, ran.out) == (2, "")
    assert "../../etc/passwd" in ran.err


@pytest.mark.parametrize(
    ("wrong", "verb"),
    [("newer", ["exec", "resume"]), ("garbage", ["sessions", "replay", "--verify"]), ("torn", ["sessions", "export"])],
    ids=["newer", "garbage", "torn"],
)
def test_a_file_that_cannot_be_read_is_named_and_the_others_are_unaffected(
    tmp_path: Path, wrong: str, verb: list[str]
) -> None:
    """E8, F4, F12: exit code 1, the file, and what to do."""
    id, other = new_session_with(tmp_path, "One"), new_session_with(tmp_path, "Two")
    file = file_of(tmp_path, id)
    match wrong:
        case "newer":
            with sqlite3.connect(file) as connection:
                connection.execute("PRAGMA user_version = 999")
            connection.close()
        case "garbage":
            file.write_bytes(b"no database" * 1000)
        case _:
            file.write_bytes(file.read_bytes()[:5000])
    before = file.read_bytes()
    ran = run(tmp_path, *verb, id)
    assert ran.code == 1
    assert str(file) in ran.err
    assert ("upgrade" if wrong == "newer" else "sessions rm") in ran.err
    assert file.read_bytes() == before
    listed = {line["session_id"]: line["trouble"] for line in run(tmp_path, "sessions", "ls", "--json").lines}
    assert str(file) in listed[id]
    assert listed[other] is None


def test_a_text_that_was_tampered_with_is_not_proved(tmp_path: Path) -> None:
    """F4, issue 5, 5: `replay --verify` exits 1 and names the file; the rest can be read."""
    id = new_session_with(tmp_path, "The meeting is on Monday.")
    file = file_of(tmp_path, id)
    raw = file.read_bytes()
    assert raw.count(b"Monday")
    file.write_bytes(raw.replace(b"Monday", b"Sunday"))
    ran = run(tmp_path, "sessions", "replay", id, "--verify")
    assert ran.code == 1
    assert str(file) in ran.err
    shown = run(tmp_path, "sessions", "show", id)
    assert shown.code == 0
    assert "Noted." in shown.out
    assert "day" not in shown.out


def test_a_link_that_somebody_planted_is_not_followed(tmp_path: Path) -> None:
    """E7: neither read, nor written, nor removed with what it points to."""
    new_session_with(tmp_path, "One")
    target = tmp_path / "target"
    target.write_text("precious")
    file_of(tmp_path, NOWHERE).symlink_to(target)
    for verb in VERBS:
        ran = run(tmp_path, *verb, NOWHERE)
        assert ran.code == 1
        assert NOWHERE in ran.err + ran.out
    assert target.read_text() == "precious"


# ---- somebody else has it


async def test_a_session_in_use_is_refused_by_name_and_can_be_watched(tmp_path: Path) -> None:
    """Issue 5, 6: a clear error or, with --follow, a read-only live view."""
    async with serving(tmp_path, ["One.", "Two."]) as server:
        id = (await server.call("session/info"))["session_id"]
        await server.say("1")
        for verb in (["exec", "resume"], ["sessions", "rm", "-y"]):
            ran = run(tmp_path, *verb, id)
            assert ran.code == 1
            assert id in ran.err
            assert str(file_of(tmp_path, id)) in ran.err
            assert "--follow" in ran.err
        assert run(tmp_path, "sessions", "ls", "--json").lines[0]["in_use"]
        with started(tmp_path, "resume", id, "--follow") as watching:
            assert watching.stdout
            assert [watching.stdout.readline() for _ in range(2)] == [b"you 1\n", b"One.\n"]
            await server.say("2")
            assert [watching.stdout.readline() for _ in range(2)] == [b"you 2\n", b"Two.\n"]
            assert await server.end() == 0
            assert watching.wait(HANG_S) == 0
    assert run(tmp_path, "exec", "resume", id).out == "Two.\n"


# ---- where it lies


def test_nobody_else_can_read_what_is_stored(tmp_path: Path) -> None:
    """E7: 0700 and 0600, whatever the umask; the index can be rebuilt."""
    home = tmp_path / "data"
    command = [program(), "exec", "-m", write_script(tmp_path, []), "Secret"]
    env = {**surroundings(tmp_path / "home"), "TERTULIA_HOME": str(home)}
    subprocess.run(command, cwd=tmp_path, env=env, umask=0, check=True, capture_output=True, timeout=HANG_S)
    (home / "sessions" / "index.db").write_bytes(b"nonsense")
    assert "Secret" in run(tmp_path, "sessions", "ls", TERTULIA_HOME=str(home)).out
    modes = {path.stat().st_mode & 0o777 for path in (home, *home.rglob("*")) if path.is_dir()}
    assert modes == {0o700}
    assert {path.stat().st_mode & 0o777 for path in home.rglob("*") if path.is_file()} == {0o600}


def test_a_place_that_cannot_hold_data_is_named(tmp_path: Path) -> None:
    """F7."""
    (tmp_path / "file").write_text("")
    model = write_script(tmp_path, ["Hi."])
    ran = run(tmp_path, "exec", "-m", model, "Go", TERTULIA_HOME=str(tmp_path / "file"))
    assert ran.code == 2
    assert str(tmp_path / "file") in ran.err
