"""Which session and which conversation a person means."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from tertulia.apps import stored
from tertulia.apps.global_flags import Given
from tertulia.apps.stored import Comeback, find_open, find_stored
from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.rollout.sqlite.session_index import SessionEntry
from tests.apps.keeping import home, talk
from tests.apps.running import Shell
from tests.session.staging import stage


def test_the_whole_id_its_beginning_and_the_newest(shell: Shell) -> None:
    first, second = talk(shell), talk(shell)
    assert find_stored(home(shell), first, last=False) == first
    assert find_stored(home(shell), first[:8], last=False) == first
    assert find_stored(home(shell), None, last=True) == second


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
        find_stored(tmp_path, which, last=last)
    assert said in str(refused.value.message)


def test_a_beginning_that_several_have_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [SessionEntry(f"abcd000{n}-0000-0000-0000-000000000000", (0, 0, 0, 0), 0, 0.0, 0.0) for n in range(6)]
    monkeypatch.setattr(stored, "list_sessions", lambda home: entries)
    with pytest.raises(InvalidParamsError, match=r"6 sessions begin with abcd .*abcd0003.*…"):
        find_stored(tmp_path, "abcd", last=False)
    assert find_stored(tmp_path, "abcd0004", last=False) == entries[4].id


# ---- settings of a session that goes on


def test_the_model_is_that_of_the_record_unless_the_command_line_names_one(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DESIGN, Sessions: the model comes from the record unless given."""
    monkeypatch.setenv("TERTULIA_MODEL", "acme/usual")
    assert Comeback.of(Given(), Given().load(), "id").settings.model is None
    flag, override = Given(), Given()
    flag.take("model", "acme/flag")
    override.take("overrides", ("model=acme/override",))
    assert Comeback.of(flag, flag.load(), "id").settings.model == "acme/flag"
    assert Comeback.of(override, override.load(), "id").settings.model == "acme/override"


def test_the_directory_is_that_of_the_record_unless_the_command_line_names_one(shell: Shell) -> None:
    given = Given()
    assert Comeback.of(given, given.load(), "id").cwd is None
    given.take("cwd", str(shell.folder))
    assert Comeback.of(given, given.load(), "id").cwd == str(shell.folder)


async def test_a_model_that_cannot_be_had_any_more_is_told_with_the_way_out(shell: Shell) -> None:
    given = Given()
    loaded = given.load()

    class Nobody:
        async def resume(self, session_id: str) -> None:
            raise InvalidParamsError("there is no model acme/gone")

    with pytest.raises(InvalidParamsError, match=r"acme/gone; .* unless -m names another"):
        await Comeback.of(given, loaded, "id").begin(Nobody())
    given.take("model", "acme/other")
    with pytest.raises(InvalidParamsError) as plain:
        await Comeback.of(given, given.load(), "id").begin(Nobody())
    assert plain.value.message == "there is no model acme/gone"


# ---- conversations


async def test_a_conversation_by_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage() as on:
        child = await on.session.open()
        assert find_open(on.session, "root") == on.root.id
        assert find_open(on.session, child.id) == child.id
        assert find_open(on.session, child.id[:13]) == child.id
        for word in ("abc", "nobody-knows-it"):
            with pytest.raises(NotFoundError):
                find_open(on.session, word)
        monkeypatch.setattr(on.session, "conversations", lambda: [_Named("abcd1"), _Named("abcd2")])
        with pytest.raises(InvalidParamsError, match="2 conversations begin"):
            find_open(on.session, "abcd")


class _Named:
    def __init__(self, id: str) -> None:
        self.id = id
