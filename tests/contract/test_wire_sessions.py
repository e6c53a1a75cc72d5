"""Sessions that come and go over one connection, as the page has them."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from tests.contract.app_server import Refused, serving

CLOSED = {"closed": True, "already_closed": False, "forced": False}


async def test_a_session_that_came_back_is_closed_like_any_other(tmp_path: Path) -> None:
    """S002-48, X-71: `already_closed` is about this life, and what is asked of a new one holds."""
    async with serving(tmp_path, ["one", "two"]) as server:
        other = (await server.call("session/start"))["session_id"]
        for sandbox in ("read-only", "workspace-write"):
            assert await server.call("session/close", session_id=other) == CLOSED
            assert await server.call("session/close", session_id=other) == CLOSED | {"already_closed": True}
            with pytest.raises(Refused) as refused:
                await server.call("conversation/list", session_id=other)
            assert refused.value.code == "closed"
            resumed = await server.call("session/resume", session_id=other, sandbox=sandbox)
            assert (resumed["session_id"], resumed["policy"]["sandbox"]) == (other, sandbox)
            assert len((await server.call("conversation/list", session_id=other))["conversations"]) == 1


@pytest.mark.parametrize("method", ["session/resume", "session/info", "session/close", "conversation/list"])
async def test_a_session_that_never_was_is_not_found_however_it_is_spelled(tmp_path: Path, method: str) -> None:
    """Fine print: never existed → not_found; no file is looked for outside of the place for them."""
    async with serving(tmp_path, []) as server:
        before = await server.call("session/list")
        for name in (str(uuid4()), str(uuid4()).upper(), "nope", "", "../../x", "root", "x" * 10_000):
            with pytest.raises(Refused) as refused:
                await server.call(method, session_id=name)
            assert (refused.value.number, refused.value.code) == (-32000, "not_found"), name
            assert len(refused.value.message) < 500
        for wrong in (7, True, [], {}):
            with pytest.raises(Refused) as refused:
                await server.call(method, session_id=wrong)
            assert (refused.value.number, refused.value.code) == (-32602, "invalid_params"), wrong
        assert await server.call("session/list") == before


async def test_a_connection_that_named_a_session_that_never_was_may_still_say_hello(tmp_path: Path) -> None:
    """D16: a refused `initialize` is none."""
    async with serving(tmp_path, [], hello=False) as server:
        for name, code in (("nope", "not_found"), (str(uuid4()), "not_found"), (7, "invalid_params")):
            with pytest.raises(Refused) as refused:
                await server.call("initialize", session_id=name)
            assert refused.value.code == code
        with pytest.raises(Refused) as refused:
            await server.call("session/info")
        assert (refused.value.number, refused.value.code) == (-32002, "not_initialized")
        await server.call("initialize")
        assert len((await server.call("session/list"))["sessions"]) == 1
