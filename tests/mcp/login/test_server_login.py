"""Logins to MCP servers: what a session does without a person, and what a person gets by logging in."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from tertulia.errors import McpError, StorageError
from tertulia.mcp.client.connection import SdkConnection
from tertulia.mcp.login.login_store import LoginStore, StoredLogin
from tertulia.mcp.login.server_login import ServerLogin
from tertulia.mcp.login.transport import LoginTransport
from tertulia.scheduler.nursery import Nursery
from tests.conformance.browser import AgreeingBrowser
from tests.deadlines import HANG_S
from tests.mcp.connected import Reach, call, reaching
from tests.mcp.fakes import by_http
from tests.mcp.login.tracker import READ, WRITE, Tracker, metadata_of, tracking

NO_KEYRING = {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring", "PATH": os.environ["PATH"]}


@pytest.fixture
async def tracker() -> AsyncIterator[Tracker]:
    async with tracking() as found:
        yield found


@pytest.fixture
async def reach(tmp_path: Path) -> AsyncIterator[Reach]:
    async with reaching() as made:
        made.logins = LoginStore(tmp_path, NO_KEYRING)
        yield made


async def connected(reach: Reach, tracker: Tracker) -> SdkConnection:
    return await reach(by_http(f"{tracker.url}/mcp", name="tracker"))


def keep(reach: Reach, tracker: Tracker, *, scope: str = READ, expires_at: float | None = None) -> StoredLogin:
    """As after a login in another process."""
    assert reach.logins is not None
    login = StoredLogin(
        url=f"{tracker.url}/mcp",
        tokens=tracker.issue(scope),
        expires_at=expires_at,
        client={"client_id": "client-1", "redirect_uris": ["http://127.0.0.1:3030/callback"]},
        authorization_server=metadata_of(tracker),
        resource={"resource": f"{tracker.url}/mcp", "authorization_servers": [f"{tracker.url}/"]},
    )
    reach.logins.keep("tracker", login)
    return login


# ---- without a person


async def test_without_a_login_nothing_is_asked_but_the_server_and_the_error_names_the_command(
    reach: Reach, tracker: Tracker
) -> None:
    """C15: no metadata is followed and no browser opened by a session; nothing is left behind."""
    with pytest.raises(McpError) as refused:
        await connected(reach, tracker)
    assert refused.value.message == (
        "tracker: it wants a login: `tertulia mcp login tracker`, or a token that you name with bearer_token_env_var"
    )
    assert set(tracker.seen) == {"/mcp"}
    assert reach.logins is not None
    assert not reach.logins.path.exists()


async def test_a_stored_login_is_sent_and_its_token_is_never_shown(
    reach: Reach, tracker: Tracker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    keep(reach, tracker)
    link = await connected(reach, tracker)
    answer = await call(link, "whoami")
    assert answer.text == "you sent [redacted:secret]"
    assert "access-token" not in caplog.text
    assert "renewal-token" not in caplog.text
    assert set(tracker.seen) == {"/mcp"}


async def test_a_login_to_another_address_is_not_sent(reach: Reach, tracker: Tracker) -> None:
    """A project's file may name a server as the user did."""
    keep(reach, tracker)
    async with tracking() as other:
        other.valid = dict(tracker.valid)
        with pytest.raises(McpError, match="it wants a login"):
            await reach(by_http(f"{other.url}/mcp", name="tracker"))


async def test_an_expired_token_is_renewed_once_however_many_calls_wait(reach: Reach, tracker: Tracker) -> None:
    old = keep(reach, tracker, expires_at=1.0)
    tracker.valid.clear()
    link = await connected(reach, tracker)
    assert tracker.seen["/token"] == 1
    tracker.valid.clear()  # refused before its time
    tracker.renewal_begins, _ = asyncio.Event(), tracker.renewal_goes_on.clear()
    calls = asyncio.gather(*(call(link, "whoami") for _ in range(20)))
    await asyncio.wait_for(tracker.renewal_begins.wait(), HANG_S)
    tracker.renewal_goes_on.set()
    answers = await asyncio.wait_for(calls, HANG_S)
    assert all(not answer.is_error for answer in answers)
    assert tracker.seen["/token"] == 2
    assert reach.logins is not None
    stored = reach.logins.read("tracker")
    assert stored is not None
    assert stored.tokens["refresh_token"] in tracker.renewals
    assert stored.tokens["refresh_token"] != old.tokens["refresh_token"]


async def test_a_call_that_runs_holds_up_no_other(reach: Reach, tracker: Tracker) -> None:
    """Connections are shared: while one conversation's login is renewed, a cancelled call stops nothing."""
    keep(reach, tracker)
    link = await connected(reach, tracker)
    tracker.valid.clear()
    tracker.renewal_begins, _ = asyncio.Event(), tracker.renewal_goes_on.clear()
    first, second = asyncio.create_task(call(link, "whoami")), asyncio.create_task(call(link, "whoami"))
    await asyncio.wait_for(tracker.renewal_begins.wait(), HANG_S)
    first.cancel()
    tracker.renewal_goes_on.set()
    assert not (await asyncio.wait_for(second, HANG_S)).is_error
    assert tracker.seen["/token"] == 1


async def test_a_login_that_another_process_renewed_is_taken_over(reach: Reach, tracker: Tracker) -> None:
    """Its renewal token is used up: asking with the old one would end the login for all."""
    keep(reach, tracker)
    link = await connected(reach, tracker)
    tracker.valid.clear()
    tracker.renewals.clear()
    keep(reach, tracker)
    assert not (await call(link, "whoami")).is_error
    assert tracker.seen["/token"] == 0


async def test_a_login_that_has_ended_is_told_with_the_command(reach: Reach, tracker: Tracker) -> None:
    keep(reach, tracker)
    link = await connected(reach, tracker)
    tracker.valid.clear()
    tracker.refuses_renewal = True
    with pytest.raises(McpError, match=r"its login has ended: `tertulia mcp login tracker`"):
        await call(link, "whoami")
    # The next call asks again: the person may have logged in meanwhile.
    tracker.refuses_renewal = False
    keep(reach, tracker)
    assert not (await call(link, "whoami")).is_error


async def test_a_right_that_the_login_lacks_is_refused_and_asked_for_at_the_next_login(
    reach: Reach, tracker: Tracker
) -> None:
    keep(reach, tracker)
    link = await connected(reach, tracker)
    with pytest.raises(McpError, match=r"does not reach so far, it lacks issues:write: `tertulia mcp login tracker`"):
        await call(link, "write")
    assert not (await call(link, "whoami")).is_error
    reach.browser = AgreeingBrowser()
    again = await connected(reach, tracker)
    assert not (await call(again, "write")).is_error
    assert reach.logins is not None
    stored = reach.logins.read("tracker")
    assert stored is not None
    assert WRITE in stored.tokens["scope"]
    assert not stored.wanted_scopes


async def test_a_server_that_is_busy_ends_no_login(reach: Reach, tracker: Tracker) -> None:
    """The next call renews it."""
    keep(reach, tracker)
    link = await connected(reach, tracker)
    tracker.valid.clear()
    tracker.renewal_status = 503
    with pytest.raises(McpError, match=r"cannot be renewed now \(HTTP status 503\); the next call tries again"):
        await call(link, "whoami")
    tracker.renewal_status = 200
    assert not (await call(link, "whoami")).is_error


async def test_a_login_that_was_removed_is_not_renewed_and_not_kept_again(reach: Reach, tracker: Tracker) -> None:
    keep(reach, tracker)
    link = await connected(reach, tracker)
    assert reach.logins is not None
    reach.logins.remove("tracker")
    tracker.valid.clear()
    with pytest.raises(McpError, match="its login has ended"):
        await call(link, "whoami")
    assert reach.logins.names() == []
    assert tracker.seen["/token"] == 0


async def test_a_missing_right_takes_nothing_from_a_newer_login(reach: Reach, tracker: Tracker) -> None:
    """Another process renewed it: its renewal token stays, and the right is still asked for after the next renewal."""
    keep(reach, tracker)
    link = await connected(reach, tracker)
    newer = keep(reach, tracker)
    with pytest.raises(McpError, match="it lacks issues:write"):
        await call(link, "write")
    assert reach.logins is not None
    stored = reach.logins.read("tracker")
    assert stored is not None
    assert (stored.tokens, stored.wanted_scopes) == (newer.tokens, WRITE)
    tracker.valid.clear()
    assert not (await call(link, "whoami")).is_error
    tracker.valid.clear()
    assert not (await call(link, "whoami")).is_error
    stored = reach.logins.read("tracker")
    assert stored is not None
    assert stored.wanted_scopes == WRITE


async def test_no_token_goes_to_another_machine_in_the_clear(tmp_path: Path) -> None:
    """C15: a login that was kept for such an address is not used."""
    store = LoginStore(tmp_path, NO_KEYRING)
    store.keep("plain", StoredLogin(url="http://mcp.example/mcp", tokens={"access_token": "access-token-secret"}))
    requests: list[httpx2.Request] = []

    async def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        return httpx2.Response(200, request=request)

    transport = LoginTransport(httpx2.MockTransport(answer))
    _, launch = by_http("http://mcp.example/mcp", name="plain")
    nursery = Nursery()
    transport.login = ServerLogin(
        "plain", launch, store=store, browser=None, send=transport.send_alone, spawn=nursery.start, learned=str
    )
    with pytest.raises(McpError, match=r"no login is used for it: its address .* is not encrypted"):
        await transport.handle_async_request(httpx2.Request("POST", launch.url, json={}))
    assert requests == []


# ---- with a person


async def test_a_person_logs_in_and_the_next_process_needs_none(reach: Reach, tracker: Tracker, tmp_path: Path) -> None:
    """The code is exchanged with PKCE for the resource; what is kept is the user's alone."""
    reach.browser = AgreeingBrowser()
    link = await connected(reach, tracker)
    assert (await call(link, "whoami")).text == "you sent [redacted:secret]"
    (form,) = tracker.forms
    assert form["resource"] == f"{tracker.url}/mcp"
    assert len(form["code_verifier"]) >= 43
    assert tracker.registered[0]["redirect_uris"] == [AgreeingBrowser.redirect_uri]
    file = tmp_path / "mcp-logins.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    reach.browser = None
    other = await connected(reach, tracker)
    assert not (await call(other, "whoami")).is_error
    assert len(tracker.registered) == 1


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({"token_endpoint": "http://token.example/token"}, "is not encrypted"),
        ({"authorization_endpoint": "http://login.example/"}, "is not encrypted"),
        ({"authorization_endpoint": "https://user:word@login.example/"}, "is no address like"),
        ({"issuer": "https://other.example/"}, "not the one that it names"),
    ],
)
async def test_metadata_with_odd_addresses_ends_the_login_and_leaves_nothing(
    reach: Reach, tracker: Tracker, metadata: dict[str, str], why: str
) -> None:
    """C15: nothing is sent there, and no browser is sent there."""
    tracker.metadata = metadata
    reach.browser = browser = AgreeingBrowser()
    with pytest.raises(McpError, match=why):
        await connected(reach, tracker)
    assert not any("example" in address for address in browser.visited)
    assert reach.logins is not None
    assert not reach.logins.path.exists()


@pytest.mark.parametrize("address", ["file:///etc/passwd", "javascript:alert(1)", "-oProxyCommand=x"])
async def test_metadata_that_names_no_address_is_not_followed(reach: Reach, tracker: Tracker, address: str) -> None:
    """C15: then the usual places of the server itself count."""
    tracker.metadata = {"authorization_endpoint": address}
    reach.browser = browser = AgreeingBrowser()
    await connected(reach, tracker)
    assert [place.partition("?")[0] for place in browser.visited] == [f"{tracker.url}/authorize"]


async def test_a_resource_of_another_server_gets_no_token(reach: Reach, tracker: Tracker) -> None:
    tracker.resource = {"resource": "https://other.example/mcp"}
    reach.browser = browser = AgreeingBrowser()
    with pytest.raises(McpError, match="it names another resource than its own address"):
        await connected(reach, tracker)
    assert not browser.visited


async def test_a_login_that_cannot_be_read_is_said_and_stays(reach: Reach, tracker: Tracker, tmp_path: Path) -> None:
    keep(reach, tracker)
    file = tmp_path / "mcp-logins.json"
    file.chmod(0o644)
    before = file.read_bytes()
    with pytest.raises(McpError, match=r"no login in it is used until that is mended"):
        await connected(reach, tracker)
    assert file.read_bytes() == before
    assert reach.logins is not None
    with pytest.raises(StorageError):
        reach.logins.read("tracker")
