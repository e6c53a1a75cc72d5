"""An app-server with a home of its own, that anybody may trace."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from tests.contract.app_server import Server, surroundings, write_script

SERVE = (
    "import ctypes, sys; ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0); "
    "from tertulia.cli.main import main; sys.exit(main(sys.argv[1:]))"
)
"""The app-server, which anybody may trace."""


@contextlib.asynccontextmanager
async def serving(folder: Path, *flags: str) -> AsyncIterator[Server]:
    model = write_script(folder, ["yes"], repeat=True)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVE, "app-server", "-m", model, *flags,
        cwd=folder, env={**surroundings(folder / "user"), "TERTULIA_HOME": str(folder / "home")}, limit=2**26,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    server = Server(process)
    try:
        await server.call("initialize", client={"name": "durability", "version": "1"})
        yield server
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await process.communicate()
