"""What a person may do only in the process that runs the session: change the mode, and run their own commands."""

from __future__ import annotations

from tertulia.errors import InvalidParamsError
from tertulia.terminal.actions import Actions
from tertulia.terminal.composer.modes import MODES, Mode
from tertulia.terminal.port import PersonPort
from tertulia.terminal.scene import Scene


class PersonActions:
    """Calls a port that is in this process; for any other it raises an error that says so."""

    def __init__(self, scene: Scene, actions: Actions) -> None:
        """`actions`: has the port to the session."""
        self._scene = scene
        self._actions = actions

    @property
    def _port(self) -> PersonPort:
        port = self._actions.port
        if not isinstance(port, PersonPort):
            raise InvalidParamsError("that can be done only in the terminal whose process runs the session")
        return port

    async def set_mode(self, mode: str) -> None:
        """Put root into a mode; the composer has asked before one that allows more."""
        try:
            await self._port.set_mode(mode)
        finally:
            self.show_mode()
        await self._actions.describe()

    def show_mode(self) -> None:
        """Show the current mode in the composer."""
        port, composer = self._actions.port, self._scene.panes.composer
        held = port.mode if isinstance(port, PersonPort) else None
        mode: Mode | None = next((mode for mode in MODES if mode == held), None)
        if mode is not None:
            composer.modes.mode = mode
            composer.redraw()

    async def run_shell(self, command: str) -> None:
        """Run a command line of the person in the sandbox of the seen conversation."""
        await self._port.run_command(command, self._scene.seen or "root")
