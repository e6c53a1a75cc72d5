"""Every program that owns sessions lets them be reached: by their own protocol begun, by their sockets seen."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import sys
from pathlib import Path
from typing import Any

import pytest

from tertulia.server.sockets.folder_watch import FolderWatch
from tests.cli.running import SOURCE
from tests.deadlines import HANG_S
from tests.server.sockets.line_client import connected, session_names, sockets_folder

pytestmark = pytest.mark.slow

_ACP_NEW: dict[str, Any] = {"cwd": None, "mcpServers": []}
"""The directory is that of the test."""
_CODEX = {"clientInfo": {"name": "t", "title": "t", "version": "1"}}
SURFACES: dict[str, tuple[list[str], list[tuple[str, dict[str, Any]]]]] = {
    "app-server": (["app-server"], [("initialize", {})]),
    "codex": (["app-server", "--codex"], [("initialize", _CODEX), ("thread/start", {})]),
    "acp": (["acp"], [("initialize", {"protocolVersion": 1}), ("session/new", _ACP_NEW)]),
    "plain": (["--plain"], []),
    "terminal": ([], []),
}


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_session_of_each_surface_is_reached_by_its_socket_and_gone_with_it(
    surface: str, tmp_path: Path
) -> None:
    """Issue 23: `exec` has tests of its own."""
    words, requests = SURFACES[surface]
    sockets_folder().mkdir(mode=0o700, parents=True)
    (tmp_path / "script.json").write_text(json.dumps({"replies": ["Hello."]}))
    primary, secondary = pty.openpty() if not requests else (None, asyncio.subprocess.PIPE)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tertulia", *words, "-m", "scripted/script.json"),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "HOME": str(sockets_folder().parent), "TERM": "xterm-256color"},
        stdin=secondary,
        stdout=secondary,
        stderr=secondary if primary is not None else asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(HANG_S):
            for number, (method, params) in enumerate(requests):
                assert process.stdin is not None
                assert process.stdout is not None
                params = {name: str(tmp_path) if name == "cwd" else value for name, value in params.items()}
                line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
                process.stdin.write(line.encode() + b"\n")
                await _until_answered(process.stdout, number)
            (session_id,) = await _until_listed()
            async with connected(session_id) as client:
                await client.call("initialize", observe=True)
                answer = await client.call("session/info", session_id=session_id)
                assert answer["result"]["session_id"] == session_id
            process.terminate()
            await _drained(process, primary)
        assert session_names() == set()
    finally:
        if process.returncode is None:
            process.kill()
        # With its pipes, which stay open otherwise.
        await process.communicate()
        if primary is not None:
            os.close(primary)
            os.close(secondary)


async def _until_answered(output: asyncio.StreamReader, number: int) -> None:
    while (answer := json.loads(await output.readline())).get("id") != number:
        pass
    assert "result" in answer, answer


async def _until_listed() -> set[str]:
    with FolderWatch(sockets_folder()) as watch:
        while not (names := session_names()):
            await watch.wait()
    return names


async def _drained(process: asyncio.subprocess.Process, primary: int | None) -> None:
    """Wait for its end, and read what it writes meanwhile: a terminal that is not read holds its program up."""
    if primary is not None:
        asyncio.get_running_loop().add_reader(primary, _read, primary)
    try:
        await process.wait()
    finally:
        if primary is not None:
            asyncio.get_running_loop().remove_reader(primary)


def _read(terminal: int) -> None:
    try:
        os.read(terminal, 65_536)
    except OSError:
        asyncio.get_running_loop().remove_reader(terminal)
