"""Starts the terminal: the one function that the command line calls."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from tertulia.terminal.app import TerminalApp
from tertulia.terminal.port import Port

if TYPE_CHECKING:
    from tertulia.session.settings.settings import LoadedSettings


def run_terminal(
    load: Callable[[], LoadedSettings], *, resumed: str | None = None, instructions: str | None = None
) -> int:
    """Show a session until the person leaves.

    Args:
        load: Reads the settings; called in a thread, when the first frame stands.
        resumed: The id of a stored session to go on with; None: a new one.
        instructions: The base instructions of the root; None: the usual ones.

    Returns:
        The exit code of the program.

    Raises:
        TertuliaError: The session could not be started.
    """

    async def connect() -> Port:
        await asyncio.to_thread(importlib.import_module, "tertulia.terminal.local_port")
        from tertulia.terminal.local_port import LocalPort

        return await LocalPort.open(load, resumed=resumed, instructions=instructions)

    app = TerminalApp(connect)

    async def show() -> None:
        try:
            await app.run_async()
        finally:
            await app.actions.close()

    asyncio.run(show())
    if app.failure is not None:
        raise app.failure
    return app.return_code or 0
