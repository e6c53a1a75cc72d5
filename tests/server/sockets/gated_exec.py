"""An `exec` in a process of its own that waits at a named pipe before it asks: so a client has time to come."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.cli.running import SOURCE
from tests.deadlines import HANG_S
from tests.server.sockets.line_client import session_names, sockets_folder

REPLIES = (
    {"tool_calls": [{"name": "shell", "arguments": {"command": ["cat", "gate"]}}]},
    {"tool_calls": [{"name": "shell", "arguments": {"command": ["touch", "made"]}}]},
    {"text": "done"},
)


class GatedExec:
    """The process, and the directory in which it works."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path, session_id: str) -> None:
        self.process, self.folder, self.session_id = process, folder, session_id

    def open_gate(self) -> None:
        """Let it go on, to its question."""
        os.close(os.open(self.folder / "gate", os.O_WRONLY))

    @property
    def made(self) -> bool:
        """Whether it did what it asks for."""
        return (self.folder / "made").exists()

    async def end(self) -> tuple[int, str]:
        """Wait for its end: exit code, and what it printed."""
        async with asyncio.timeout(HANG_S):
            out, err = await self.process.communicate()
        return self.process.returncode or 0, (out + err).decode()


@asynccontextmanager
async def gated_exec(folder: Path, *flags: str, replies: tuple[Any, ...] = REPLIES) -> AsyncIterator[GatedExec]:
    """Start one, and wait for its socket; it is killed in the end."""
    folder.mkdir(exist_ok=True)
    os.mkfifo(folder / "gate")
    (folder / "script.json").write_text(json.dumps({"replies": replies}))
    before = session_names()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tertulia", "exec", "-m", "scripted/script.json", "-a", "untrusted"),
        *("--no-stdin", *flags, "go"),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "HOME": str(sockets_folder().parent)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(HANG_S):
            while not (new := session_names() - before):
                assert process.returncode is None, await process.communicate()
                await asyncio.sleep(0.02)
        yield GatedExec(process, folder, new.pop())
    finally:
        if process.returncode is None:
            process.kill()
        # With its pipes, which stay open otherwise.
        await process.communicate()
