"""Which session and which conversation a person means."""

from __future__ import annotations

import json
import os

import click
import pytest

from tertulia.cli import session_lookup
from tertulia.cli.global_flags import GlobalFlags
from tertulia.cli.session_lookup import ResumeRequest, find_open_conversation, find_stored_session
from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.rollout.sqlite.session_index import SessionEntry
from tests.cli.running import DEADLINE_S, Shell
from tests.cli.stored_sessions import home, ids, run_session
from tests.session.staging import stage


def test_the_whole_id_its_beginning_and_the_newest(shell: Shell) -> None:
    first, second = run_session(shell), run_session(shell)
    loaded = GlobalFlags().load()
    assert find_stored_session(loaded, first, last=False) == first
    assert find_stored_session(loaded, first[:8], last=False) == first
    assert find_stored_session(loaded, None, last=True) == second


def test_last_prefers_this_directory_and_says_where_another_works(shell: Shell) -> None:
    """Issue 19, 6."""
    elsewhere, empty = shell.folder / "elsewhere", shell.folder / "empty"
    elsewhere.mkdir()
    empty.mkdir()
    here = run_session(shell)
    there = run_session(shell, flags=("-C", str(elsewhere)))
    ran = shell.run("sessions", "show", "--last", "--json")
    assert json.loads(ran.out)["session_id"] == here
    assert json.loads(ran.out)["cwd"] == str(shell.folder)
    assert ran.err == ""
    ran = shell.run("sessions", "show", "--last", "--json", "-C", str(empty))
    assert json.loads(ran.out)["session_id"] == there
    note = f"note no session of {empty} is stored; {there[:8]}, the newest of all, works in {elsewhere}\n"
    assert ran.err == note


def test_a_session_of_which_it_is_not_stored_where_it_works_may_be_of_here(shell: Shell) -> None:
    """A directory is a text: neither the record nor the index has it where the policy forbids texts."""
    for policy in ("headers-only", "none"):
        newest = run_session(shell, flags=("--storage", policy))
        ran = shell.run("sessions", "show", "--last", "--json")
        shown = json.loads(ran.out)
        assert (shown["session_id"], shown["cwd"], ran.err) == (newest, None, "")
    stored = b"".join(path.read_bytes() for path in home(shell).rglob("*") if path.is_file())
    assert os.fsencode(shell.folder) not in stored


def test_sessions_of_our_own_tools_are_never_the_last(shell: Shell) -> None:
    """Issue 19, 6: `models test` and `demo` store nothing, and a broker that runs is passed over."""
    mine = run_session(shell)
    assert shell.run("models", "test", "-m", shell.script("Hello.", repeat=True)).code == 1
    assert shell.run("demo").code == 0
    assert ids(shell) == {mine}
    with shell.start("mcp-broker", "--alone") as broker:
        assert broker.stdin is not None
        broker.stdin.write(_INITIALIZE)
        broker.stdin.flush()
        assert broker.stdout is not None
        assert b"serverInfo" in broker.stdout.readline()
        ran = shell.run("exec", "resume", "--last", "go on")
        broker.stdin.close()
        broker.wait(DEADLINE_S)
    assert (ran.code, ran.out) == (0, "Hello.\n"), ran.err
    assert mine in shell.run("sessions", "show", "--last").out
    assert "the broker, a session of no person" in shell.run("sessions", "ls").out
    assert {line["purpose"] for line in shell.run("sessions", "ls", "--json").lines} == {None, "broker"}


_INITIALIZE = (
    b"""{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
 "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}""".replace(b"\n", b"")
    + b"\n"
)


@pytest.mark.parametrize(
    ("which", "last", "error", "expected"),
    [
        (None, False, click.UsageError, "Give its ID or --last"),
        ("abcd", True, click.UsageError, "not both"),
        ("abc", False, InvalidParamsError, "at least 4 characters"),
        ("../../etc", False, InvalidParamsError, "is no session"),
        ("ABCD1234", False, InvalidParamsError, "is no session"),
        ("00000000-0000-0000-0000-000000000000", False, NotFoundError, "there is no session"),
        ("abcd", False, NotFoundError, "sessions ls"),
        (None, True, NotFoundError, "no stored session yet"),
    ],
)
def test_what_names_no_session(shell: Shell, which: str | None, last: bool, error: type, expected: str) -> None:
    """HARDENING E9: an id that is none is refused before a path is made of it."""
    with pytest.raises(error) as refused:
        find_stored_session(GlobalFlags().load(), which, last=last)
    assert expected in str(refused.value.message)


def test_a_beginning_that_several_have_names_them(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [SessionEntry(f"abcd000{n}-0000-0000-0000-000000000000", (0, 0, 0, 0), 0, 0.0, 0.0) for n in range(6)]
    monkeypatch.setattr(session_lookup, "list_sessions", lambda home: entries)
    with pytest.raises(InvalidParamsError, match=r"6 sessions begin with abcd .*abcd0003.*…"):
        find_stored_session(GlobalFlags().load(), "abcd", last=False)
    assert find_stored_session(GlobalFlags().load(), "abcd0004", last=False) == entries[4].id


# ---- settings of a session that goes on


def test_the_model_is_that_of_the_record_unless_the_command_line_names_one(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DESIGN, Sessions: the model comes from the record unless given."""
    monkeypatch.setenv("TERTULIA_MODEL", "acme/usual")
    assert ResumeRequest.of(GlobalFlags(), GlobalFlags().load(), "id").settings.model is None
    flag, override = GlobalFlags(), GlobalFlags()
    flag.take("model", "acme/flag")
    override.take("overrides", ("model=acme/override",))
    assert ResumeRequest.of(flag, flag.load(), "id").settings.model == "acme/flag"
    assert ResumeRequest.of(override, override.load(), "id").settings.model == "acme/override"


def test_the_directory_is_that_of_the_record_unless_the_command_line_names_one(shell: Shell) -> None:
    global_flags = GlobalFlags()
    assert ResumeRequest.of(global_flags, global_flags.load(), "id").cwd is None
    global_flags.take("cwd", str(shell.folder))
    assert ResumeRequest.of(global_flags, global_flags.load(), "id").cwd == str(shell.folder)


async def test_a_model_that_cannot_be_had_any_more_is_told_with_the_way_out(shell: Shell) -> None:
    global_flags = GlobalFlags()
    loaded = global_flags.load()

    class Nobody:
        async def resume(self, session_id: str, *, waits: bool, continue_tasks: bool) -> None:
            raise InvalidParamsError("there is no model acme/gone")

    with pytest.raises(InvalidParamsError, match=r"acme/gone; .* unless -m names another"):
        await ResumeRequest.of(global_flags, loaded, "id").begin(Nobody())
    global_flags.take("model", "acme/other")
    with pytest.raises(InvalidParamsError) as plain:
        await ResumeRequest.of(global_flags, global_flags.load(), "id").begin(Nobody())
    assert plain.value.message == "there is no model acme/gone"


# ---- conversations


async def test_a_conversation_by_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage() as on:
        child = await on.session.open()
        assert find_open_conversation(on.session, "root") == on.root.id
        assert find_open_conversation(on.session, child.id) == child.id
        assert find_open_conversation(on.session, child.id[:13]) == child.id
        for word in ("abc", "nobody-knows-it"):
            with pytest.raises(NotFoundError):
                find_open_conversation(on.session, word)
        monkeypatch.setattr(on.session, "conversations", lambda: [_Named("abcd1"), _Named("abcd2")])
        with pytest.raises(InvalidParamsError, match="2 conversations begin"):
            find_open_conversation(on.session, "abcd")


class _Named:
    def __init__(self, id: str) -> None:
        self.id = id
