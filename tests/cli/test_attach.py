"""`tertulia attach`: sessions by their ids, where its token comes from, and what it refuses before it connects."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from tertulia.cli.attach import find_running_session
from tertulia.cli.global_flags import GlobalFlags
from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.session.agents.private_socket import listen_at
from tertulia.session.settings.settings import LoadedSettings
from tests.cli.running import Shell
from tests.cli.stored_sessions import Screen, home, run_session

URL = "http://127.0.0.1:9"


def test_without_a_terminal_it_says_what_it_needs(shell: Shell) -> None:
    ran = shell.run("attach", URL)
    assert ran.code == 2
    assert "needs a terminal" in ran.err


@pytest.mark.slow
def test_a_token_that_others_can_read_or_that_is_not_there_is_refused(shell: Shell) -> None:
    screen = Screen(shell, "attach", URL)
    screen.until("no token can be read")
    assert screen.close() == 2
    path = home(shell) / "serve.token"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("t" * 64)
    path.chmod(0o644)
    screen = Screen(shell, "attach", URL)
    screen.until("others can read it")
    assert screen.close() == 2


def test_an_id_takes_no_options_of_a_url(shell: Shell) -> None:
    ran = shell.run("attach", "3f2a", "--session", "77aa")
    assert (ran.code, "go with a URL" in ran.err) == (2, True)


def test_a_session_that_does_not_run_or_is_not_the_only_one_says_the_way_out(shell: Shell) -> None:
    session_id = run_session(shell)
    loaded = GlobalFlags().load()
    asyncio.run(_check_ways_out(loaded, session_id))


async def _check_ways_out(loaded: LoadedSettings, session_id: str) -> None:
    with pytest.raises(NotFoundError, match="sessions ls"):
        await find_running_session(loaded, "0000dead")
    with pytest.raises(NotFoundError, match=f"tertulia resume {session_id}"):
        await find_running_session(loaded, session_id[:8])
    with pytest.raises(InvalidParamsError, match="too short"):
        await find_running_session(loaded, "0")
    folder = loaded.environment.home / "sockets"
    ids = [f"0000dead-0000-4000-8000-00000000000{digit}" for digit in "12"]
    with ExitStack() as opened:
        for id in ids:
            opened.enter_context(listen_at(folder / f"{id}.sock")).listen()
        with pytest.raises(InvalidParamsError, match="2 running sessions begin with 0000dead"):
            await find_running_session(loaded, "0000dead")
        assert await find_running_session(loaded, ids[0]) == ids[0]
