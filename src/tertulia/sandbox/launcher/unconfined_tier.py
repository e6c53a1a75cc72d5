"""No tier at all: `danger_full_access`, chosen by the user. Its tree is still ours to end."""

from __future__ import annotations

from tertulia.sandbox.launcher.launched_process import LauncherClient, Namespace
from tertulia.sandbox.runner import Command, Output, TierName
from tertulia.sandbox.tier import OnProcessEnd, ProcessEnd, SpawnedProcess, Streams

MAY_REMAIN = (
    "a program outside bubblewrap goes on if the three processes of ours above it (keeper, launcher, guardian) are all "
    "killed at the same moment"
)
"""No kernel ends a tree with the process that started it, outside a namespace of processes."""


def may_remain(namespace: Namespace | None) -> tuple[str, ...]:
    """What there is to say, unless programs are known to be in a namespace that ends with us."""
    if namespace is not None and namespace.kind:
        return ()
    return (MAY_REMAIN if namespace is None else f"{MAY_REMAIN} ({namespace.why_not})",)


class UnconfinedTier:
    """Implements `Tier`, except that it confines nothing."""

    name: TierName = "none"

    def __init__(self) -> None:
        self._launcher = LauncherClient(confines=False)

    @property
    def not_covered(self) -> tuple[str, ...]:
        """Nothing is; and the tree may remain."""
        return ("anything: the command may do whatever the user may", *may_remain(self._launcher.namespace))

    @property
    def namespace(self) -> Namespace | None:
        """Of programs that are to have one; see `LauncherClient.namespace`."""
        return self._launcher.namespace

    def identity(self) -> tuple[object, ...]:
        """Of nothing."""
        return ()

    def find(self) -> str:
        """There is nothing to find."""
        return ""

    def spawn(self, command: Command, streams: Streams, ended: OnProcessEnd) -> SpawnedProcess:
        """As it is; without limits too."""
        return self._launcher.spawn(command, streams, {"temporary": command.temporary}, ended)

    def conclude(self, ending: ProcessEnd, output: Output) -> ProcessEnd:
        """As it was."""
        return ending

    def close(self) -> None:
        """The launcher goes."""
        self._launcher.close()
