"""What a client sends to the app-server is not in its log, where it may not be stored."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.deadlines import HANG_S
from tests.privacy.secrets_told import Secrets, everything_below, surroundings

S = Secrets("server")


def notice(method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


def lines() -> list[bytes]:
    """Everything that can be wrong with a request, each with a secret in it."""
    secret = S["prompt"]
    return [
        b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}',
        notice("conversation/message", conversation_id=secret, text=secret),
        notice("conversation/message", conversation_id="root", text=secret, items=[{"type": secret}]),
        notice("conversation/message", conversation_id="root", **{secret: secret}),
        notice("conversation/message", conversation_id="root", items=[{"type": "local_image", "path": secret}]),
        notice("conversation/set_context", conversation_id="root", model=secret),
        notice("conversation/set_context", conversation_id="root", cwd=secret),
        notice("conversation/set_context", conversation_id="root", storage_policy=secret),
        notice("session/resume", session_id=secret),
        notice("session/close", session_id=secret),
        notice("task/get", task_id=secret),
        notice(secret, text=secret),
        json.dumps({"jsonrpc": "2.0", "method": "conversation/message", "params": secret}).encode(),
        json.dumps({"jsonrpc": secret, "method": "conversation/message", "params": {}}).encode(),
        b'{"jsonrpc": "2.0", "method": ' + secret.encode(),
        b'{"jsonrpc": "2.0", "method": "' + secret.encode() + b"\xff",
        b"x" * 1000 + secret.encode(),
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "conversation/message", "params": {
            "conversation_id": "root", "text": secret}}).encode(),
    ]  # fmt: skip


def served(folder: Path, policy: str) -> bytes:
    """All that is left of such a client: files, and the log."""
    for name in ("home", "user", "tmp"):
        (folder / name).mkdir()
    ran = subprocess.run(
        [sys.executable, "-m", "tertulia", "app-server", "-m", "scripted/tour", "--storage", policy],
        cwd=folder / "user",
        env=surroundings(folder),
        input=b"\n".join(lines()) + b"\n",
        capture_output=True,
        timeout=HANG_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert b'"id":2' in ran.stdout.replace(b" ", b"")
    return everything_below(folder) + ran.stderr


def test_the_log_of_the_server_tells_it_where_all_may_be_stored(tmp_path: Path) -> None:
    """A control: the search below finds what is there."""
    assert set(S.found(served(tmp_path, "full"))) == {"prompt"}


@pytest.mark.parametrize("policy", ["headers-only", "none", "ttl:1000"])
def test_the_log_of_the_server_has_no_text_of_a_client(tmp_path: Path, policy: str) -> None:
    """E1, E6: a notification that cannot be carried out is logged, without what it said."""
    left = served(tmp_path, policy)
    assert b"not carried out" in left
    log = left[left.index(b"a notification") :]
    assert S.found(left if policy != "ttl:1000" else log) == {}
