"""Which session and which conversation a person means."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from tertulia.cli import session_lookup
from tertulia.cli.global_flags import GlobalFlags
from tertulia.cli.session_lookup import ResumeRequest, find_open_conversation, find_stored_session
from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.rollout.sqlite.session_index import SessionEntry
from tests.cli.running import Shell
from tests.cli.stored_sessions import home, run_session
from tests.session.staging import stage


def test_the_whole_id_its_beginning_and_the_newest(shell: Shell) -> None:
    first, second = run_session(shell), run_session(shell)
    assert find_stored_session(home(shell), first, last=False) == first
    assert find_stored_session(home(shell), first[:8], last=False) == first
    assert find_stored_session(home(shell), None, last=True) == second


@pytest.mark.parametrize(
    ("which", "last", "error", "said"),
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
def test_what_names_no_session(tmp_path: Path, which: str | None, last: bool, error: type, said: str) -> None:
    """HARDENING E9: an id that is none is refused before a path is made of it."""
    with pytest.raises(error) as refused:
        find_stored_session(tmp_path, which, last=last)
    assert said in str(refused.value.message)


def test_a_beginning_that_several_have_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [SessionEntry(f"abcd000{n}-0000-0000-0000-000000000000", (0, 0, 0, 0), 0, 0.0, 0.0) for n in range(6)]
    monkeypatch.setattr(session_lookup, "list_sessions", lambda home: entries)
    with pytest.raises(InvalidParamsError, match=r"6 sessions begin with abcd .*abcd0003.*…"):
        find_stored_session(tmp_path, "abcd", last=False)
    assert find_stored_session(tmp_path, "abcd0004", last=False) == entries[4].id


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
    given = GlobalFlags()
    assert ResumeRequest.of(given, given.load(), "id").cwd is None
    given.take("cwd", str(shell.folder))
    assert ResumeRequest.of(given, given.load(), "id").cwd == str(shell.folder)


async def test_a_model_that_cannot_be_had_any_more_is_told_with_the_way_out(shell: Shell) -> None:
    given = GlobalFlags()
    loaded = given.load()

    class Nobody:
        async def resume(self, session_id: str) -> None:
            raise InvalidParamsError("there is no model acme/gone")

    with pytest.raises(InvalidParamsError, match=r"acme/gone; .* unless -m names another"):
        await ResumeRequest.of(given, loaded, "id").begin(Nobody())
    given.take("model", "acme/other")
    with pytest.raises(InvalidParamsError) as plain:
        await ResumeRequest.of(given, given.load(), "id").begin(Nobody())
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
