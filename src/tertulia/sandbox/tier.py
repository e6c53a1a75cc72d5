"""The interface of a tier: it starts a command confined, and says when all of it is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

from tertulia.sandbox.runner import Change, Command, LimitName, Output, TierName


class Streams(msgspec.Struct, frozen=True):
    """The command's own ends of its stdin, stdout and stderr; the caller closes them after `spawn`."""

    stdin: int
    stdout: int
    stderr: int


class ProcessEnd(msgspec.Struct, frozen=True):
    """How a command ended: nothing of it runs any more."""

    exit_code: int
    """128 + n where signal n ended it."""
    began: bool = True
    """False: it could not be confined or executed, and nothing of it ran."""
    limit: LimitName | None = None
    reason: str | None = None
    """Why it did not begin."""
    sampled: bool = False
    """The limit was seen by looking from time to time."""
    written: int = 0
    """Bytes that it wrote to disks."""
    changes: tuple[Change, ...] = ()
    """Protected files that changed while it ran."""


OnProcessEnd = Callable[[ProcessEnd], None]


class SpawnedProcess(Protocol):
    """A command with all processes that it has started."""

    def kill(self) -> None:
        """End all of it, at once and without waiting. Calling it twice, or too late, has no effect."""
        ...

    def terminate(self) -> None:
        """SIGTERM to the command itself, where that can be had; else nothing."""
        ...

    def leader(self) -> int | None:
        """The command itself, as this machine numbers it; None where it is not known, not begun or ended."""
        ...


class Namespace(msgspec.Struct, frozen=True):
    """What was found when programs outside a sandbox were to have a namespace of processes."""

    kind: Literal["processes", "users", ""] = ""
    why_not: str = ""


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


SIGNAL_ATTEMPT, PROTECTED_ATTEMPT = "signal the parent", "write below a protected name"
"""The attempts of the self-test that a tier may have to list instead of stopping them."""


class Tier(Protocol):
    """One way to confine. Its callbacks come on the loop of the thread that called `spawn`."""

    @property
    def name(self) -> TierName:
        """The name of the tier in settings and reports."""
        ...

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What it cannot hold, in words for people."""
        ...

    @property
    def listed_attempts(self) -> frozenset[str]:
        """Attempts of the self-test that may succeed here, because `not_covered` says so."""
        ...

    def identity(self) -> tuple[object, ...]:
        """What `find` would look at, in a form that changes when that does. Costs next to nothing."""
        ...

    def find(self) -> str:
        """The version of what it rests on; SandboxUnavailable where that is missing or not to be trusted. Blocks."""
        ...

    def spawn(self, command: Command, streams: Streams, ended: OnProcessEnd) -> SpawnedProcess:
        """Start it; `ended` is called exactly once, and never before this returns. Raises before anything runs."""
        ...

    def conclude(self, ending: ProcessEnd, output: Output) -> ProcessEnd:
        """The ending as callers get it, given how much the command had written. Pure."""
        ...

    def close(self) -> None:
        """Release what is kept between commands."""
        ...


class OutsideTier(Tier, Protocol):
    """The one that confines nothing."""

    hidden: tuple[str, ...]
    """Places that no program sees; then each has a namespace, or does not begin."""

    @property
    def namespace(self) -> Namespace | None:
        """The namespace of programs that are to have one; None: that is not known yet."""
        ...
