"""`tertulia mcp login` and `logout`, with the real program and a browser that follows its address."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from tests.deadlines import HANG_S
from tests.forked import AsyncProgram
from tests.mcp.login.tracker import Tracker, tracking


class Installation:
    """Where the program runs."""

    def __init__(self, folder: Path, tracker: Tracker) -> None:
        self.folder, self.tracker = folder, tracker
        self.logins = folder / "home" / "mcp-logins.json"
        config = folder / "config" / "tertulia" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(
            f'[mcp_servers.tracker]\nurl = "{tracker.url}/mcp"\n[mcp_servers.program]\ncommand = "true"\n'
        )

    async def start(self, *words: str) -> AsyncProgram:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "TERTULIA_HOME": str(self.folder / "home"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "LANG": "C.UTF-8",
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        }
        return await AsyncProgram.start("mcp", *words, cwd=self.folder, env=env)

    async def run(self, *words: str) -> tuple[int, str, str]:
        program = await self.start(*words)
        out, errors = await asyncio.wait_for(program.communicate(), HANG_S)
        return await program.wait(), out.decode(), errors.decode()


@pytest.fixture
async def installed(tmp_path: Path) -> AsyncIterator[Installation]:
    async with tracking() as tracker:
        yield Installation(tmp_path, tracker)


async def address(program: AsyncProgram) -> str:
    line = await asyncio.wait_for(program.stderr.readline(), HANG_S)
    return line.decode().strip().removeprefix("Log in here: ")


async def follow(place: str) -> httpx2.Response:
    async with httpx2.AsyncClient(follow_redirects=True, timeout=HANG_S, trust_env=False) as browser:
        return await browser.get(place)


async def test_a_login_in_the_browser_is_kept_used_and_forgotten(installed: Installation) -> None:
    """The code goes to this machine only; what is kept is the user's alone; a logout is told to the server."""
    program = await installed.start("login", "tracker", "--no-browser")
    page = await follow(await address(program))
    assert "You are logged in" in page.text
    out, errors = await asyncio.wait_for(program.communicate(), HANG_S)
    assert await program.wait() == 0, errors
    assert out.decode().startswith("Logged in to tracker: 2 tools, with issues:read. Kept in ")
    assert b"-token-" not in out + errors
    assert stat.S_IMODE(installed.logins.stat().st_mode) == 0o600
    code, listed, _ = await installed.run("test", "tracker")
    assert code == 0, listed
    (renewal,) = installed.tracker.renewals
    code, out_text, _ = await installed.run("logout", "tracker")
    assert (code, out_text) == (0, "The login to tracker is removed, and revoked there.\n")
    assert renewal not in installed.tracker.renewals
    assert "-token-" not in installed.logins.read_text()
    code, _, errors_text = await installed.run("logout", "tracker")
    assert code == 1
    assert "there is no login to 'tracker'; logins there are: none" in errors_text


async def test_the_next_login_comes_back_to_the_port_that_was_registered(installed: Installation) -> None:
    """Some authorization servers take no other; and an earlier login stays until the new one is there."""
    for _ in range(2):
        program = await installed.start("login", "tracker", "--no-browser", "--scope", "issues:write")
        await follow(await address(program))
        out, _ = await asyncio.wait_for(program.communicate(), HANG_S)
        assert b"with issues:write" in out
    assert len(installed.tracker.registered) == 1
    before = installed.logins.read_bytes()
    program = await installed.start("login", "tracker", "--no-browser")
    place = (await address(program)).replace("/authorize?", "/nothing?")
    assert place
    back = place.partition("redirect_uri=")[2].partition("&")[0].replace("%3A", ":").replace("%2F", "/")
    state = place.partition("state=")[2].partition("&")[0]
    foreign = await follow(f"{back}?code=stolen&state=other")
    assert (foreign.status_code, "another login" in foreign.text) == (400, True)
    assert (await follow(back.replace("/callback", "/other"))).status_code == 404
    refused = await follow(f"{back}?error=access_denied&state={state}")
    assert "The login was refused" in refused.text
    _, errors = await asyncio.wait_for(program.communicate(), HANG_S)
    assert await program.wait() == 1
    assert b"the login was refused: access_denied; nothing was kept" in errors
    assert installed.logins.read_bytes() == before


async def test_what_needs_no_login_says_so_and_keeps_nothing(installed: Installation) -> None:
    installed.tracker.wants_login = False
    assert await installed.run("login", "tracker") == (0, "tracker wants no login: 2 tools. Nothing was kept.\n", "")
    code, _, errors = await installed.run("login", "program")
    assert code == 2
    assert "program is a program that we start; there is a login only to a server with url" in errors
    code, _, errors = await installed.run("login", "trcker")
    assert code == 1
    assert "did you mean tracker?" in errors
    assert not installed.logins.exists()


async def test_a_person_who_does_not_come_back_ends_the_login(installed: Installation) -> None:
    code, _, errors = await installed.run("login", "tracker", "--no-browser", "--within", "1")
    assert code == 1
    assert "no browser came back within 1 s; nothing was kept" in errors
    assert not installed.logins.exists()


async def test_a_login_of_a_keyring_that_is_gone_can_be_replaced_and_removed(installed: Installation) -> None:
    installed.logins.parent.mkdir(mode=0o700)
    lost = '{"version": 1, "keys": {"tracker": {"key": null}}}'
    for words, answer in ((("logout", "tracker"), "is removed"), (("login", "tracker", "--no-browser"), "Logged in")):
        installed.logins.write_text(lost)
        installed.logins.chmod(0o600)
        program = await installed.start(*words)
        if words[0] == "login":
            await follow(await address(program))
        out, errors = await asyncio.wait_for(program.communicate(), HANG_S)
        assert await program.wait() == 0, errors
        assert answer in out.decode()
