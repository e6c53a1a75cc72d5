"""The TypeScript client in Node against a real server, over WebSocket and over standard streams; and its types."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.clients.reaching import DEADLINE_S, ROOT, app_server, node_tool, serving, surroundings
from tests.conformance.suite import NODE

pytestmark = pytest.mark.slow
JOURNEY = ROOT / "tests/clients/journey.mts"


def journey(folder: Path, *words: str) -> None:
    """Run it, and look at what it saw."""
    ran = subprocess.run(
        [NODE, JOURNEY, *words],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False, env=surroundings(folder),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    saw = json.loads(ran.stdout)
    assert (saw["before"], saw["protocol"], saw["text"]) == ("not_initialized", "1", "done")
    assert saw["refused"] == {"code": "not_running", "number": -32000}
    assert saw["titles"] == [None, "helper"]
    index = saw["seen"].index("approval_request")
    assert saw["seen"][index + 1] == "approval_resolved"
    assert saw["seen"].index("task_complete") > index


def test_over_websocket_to_a_server(tmp_path: Path) -> None:
    with serving(tmp_path) as (url, token):
        journey(tmp_path, "serve", url, token)


def test_over_standard_streams_to_an_app_server_of_its_own(tmp_path: Path) -> None:
    journey(tmp_path, "start", *app_server(tmp_path))


def test_it_and_a_program_that_uses_it_are_typed() -> None:
    compiler = node_tool("typescript/bin/tsc")
    done = subprocess.run(
        [NODE, compiler, "-p", ROOT / "clients/typescript"],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
