"""The interface on one screen: a confinement, a command in it, and the handle of what runs.

Nothing here asks for an approval or knows a tool. A caller that lets a command leave the sandbox passes another
confinement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from tertulia.policy.display_text import visible
from tertulia.policy.host_rules import NetworkRight
from tertulia.protocol.conversation_fields import SandboxMode

if TYPE_CHECKING:
    from tertulia.sandbox.proxy.gate import HostGate

TierName = Literal["bubblewrap", "landlock", "seatbelt", "none"]
"""`none` runs nothing but `danger_full_access`, and that runs in nothing else."""

TierChoice = Literal["auto", "bubblewrap", "landlock", "seatbelt"]
"""What a user may set. `auto` is bubblewrap, or Landlock where that does not work, decided once, at the first use; and
seatbelt on macOS.
Running without a tier is a right, not a setting."""

LimitName = Literal["processes", "memory_bytes", "file_bytes", "cpu_s", "written_bytes"]

PROTECTED_NAMES = (".git", ".tertulia", ".mcp.json", ".codex", ".claude", ".vscode", ".idea")
"""Stay read-only at the top of every writable root, also where they do not exist yet."""


MAX_ARGUMENT_BYTES = 128 * 1024 - 1
"""The kernel's own limit: no program can be started with a longer word."""


_MOST_TOLD = 20


class CommandLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a command and its children may use; None is no limit."""

    processes: int | None = 4096
    """Processes and threads of the command, together."""
    memory_bytes: int | None = 8 << 30
    """Of all together, shared memory and files in memory included. Held by a cgroup where there is one; elsewhere by
    the kernel for each process, and for all together by looking from time to time."""
    file_bytes: int | None = 8 << 30
    """The largest file it may write."""
    cpu_s: int | None = 3600
    """CPU time of each process."""
    written_bytes: int | None = 32 << 30
    """Written to disks by all commands of one account together; what is deleted before it gets there is not counted.
    By looking from time to time."""


class Confinement(msgspec.Struct, frozen=True, kw_only=True):
    """What a command may touch. Frozen data: the same value is shown, approved and enforced.

    Roots are canonical (`os.path.realpath`, once, when the settings are made). One that is no longer the directory of
    that name when a command starts refuses the command; no root is ever derived from `cwd`.
    """

    mode: SandboxMode
    writable_roots: tuple[str, ...] = ()
    """Counts in workspace_write only. `/tmp` is writable in every mode, and private to the command."""
    network: NetworkRight = False
    """All of it, or hosts by name, which are reached through a proxy; a tier that cannot hold a list refuses it."""
    masked: tuple[str, ...] = ()
    """Files and directories that read as empty, whether inside a root or outside; see `masks/guarded_paths.py`."""
    shown: tuple[str, ...] = ()
    """Directories that are seen wherever they lie, also in a masked or private one; being seen is no right to write."""
    readable: tuple[str, ...] = ()
    """Directories that are seen also in a private one, such as `/tmp`, unless they are masked; read-only."""
    protected: tuple[str, ...] = PROTECTED_NAMES
    protected_paths: tuple[str, ...] = ()
    """Absolute: read-only inside a writable root, also where they do not exist yet."""
    missing_files: tuple[str, ...] = ()
    """Those of both that would be files: while a command runs, an empty file stands where one is missing."""
    git_stores: tuple[str, ...] = ()
    """Those of the roots that are `.git` directories, for our own git: nothing in them is looked for and protected."""
    limits: CommandLimits = CommandLimits()


class Watch(msgspec.Struct, frozen=True):
    """That files which start programs are looked at before a command and after it; see `protected/change_watch`."""

    copies: str | None = None
    """The directory in which a copy of what was written to them is kept; None keeps none."""


class Change(msgspec.Struct, frozen=True):
    """A protected file that is no longer what it was when the command began."""

    path: str
    how: Literal["made", "changed", "removed"]
    left: str | None = None
    """Why it was left so; None: it was put back."""
    copy: str | None = None
    """Where what stood there afterwards is kept."""
    undo: str | None = None
    """A shell command that undoes putting it back, for a user who made the change; None where there is none."""

    def text(self) -> str:
        """In words. The name may be the command's own: nothing in it steers, hides or cannot be written down."""
        copy = "" if self.copy is None else f", copy in {visible(self.copy)}"
        done = "put back" if self.left is None else f"left as it is: {visible(self.left)}"
        return f"{visible(self.path)} ({self.how}; {done}{copy})"


class TerminalSize(msgspec.Struct, frozen=True):
    """The size of a pseudo-terminal, in characters."""

    rows: int = 24
    columns: int = 80


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One program, started without a shell."""

    argv: tuple[str, ...]
    """A name without a slash is looked up in the `PATH` of `environment`, inside the sandbox."""
    cwd: str
    """An absolute directory; where it begins, and nothing more."""
    confinement: Confinement
    environment: Mapping[str, str]
    """All of it: nothing of our own is inherited. See `policy.shell_environment`."""
    stdin: bytes = b""
    """Written first; then end of file, unless it is kept open."""
    keep_stdin: bool = False
    """Leave it open for `RunningCommand.write`."""
    terminal: TerminalSize | None = None
    """Give it a pseudo-terminal of this size; keeps stdin open."""
    kept_output_bytes: int = 65_536
    """How much of the output is held in memory, half from its beginning and half from its end."""
    temporary: tuple[str, ...] = ()
    """Outside any sandbox: directories that are the command's alone and are removed with it, even if we are killed."""
    account: str | None = None
    """Commands with the same one share `written_bytes`: those of a task. Without one it is the command's alone."""
    watch: Watch | None = None
    """Counts where something can be written, in a sandbox."""
    inherit_stdio: bool = False
    """For a program that a person started: our own 0, 1 and 2, and no output is kept."""
    gate: HostGate | None = None
    """Decides which hosts it reaches where the confinement has a list of them; without one it is not started."""
    pid_namespace: bool = False
    """Outside any sandbox, and where it can be had: among its own processes alone. It can neither see nor signal
    another, and the kernel ends them whatever is killed. In a sandbox that is so anyway."""


class Output(msgspec.Struct, frozen=True):
    """What was written to stdout and stderr, in order; `head` is all of it unless something was left out."""

    head: bytes
    tail: bytes
    total: int
    """How many bytes there were in all."""

    @property
    def truncated(self) -> bool:
        """Whether a middle is missing."""
        return self.total > len(self.head) + len(self.tail)

    def text(self) -> str:
        """As UTF-8, with U+FFFD for what is not, and one line in place of a missing middle."""
        if not self.truncated:
            return (self.head + self.tail).decode("utf-8", "replace")
        left_out = self.total - len(self.head) - len(self.tail)
        gap = f"\n[… {left_out:,} of {self.total:,} bytes are left out …]\n"
        return self.head.decode("utf-8", "replace") + gap + self.tail.decode("utf-8", "replace")


class CommandResult(msgspec.Struct, frozen=True):
    """How a command ended. By then nothing of it runs any more, daemons included."""

    exit_code: int
    """128 + n where signal n ended it."""
    ended: Literal["exited", "timeout", "killed", "not_started"]
    """By itself, by the deadline of `run`, by `kill` or a limit; or it could not be confined and never ran."""
    output: Output
    """All of it, whatever was taken before."""
    duration_s: float
    limit: LimitName | None = None
    """The limit that it visibly ran into, if any."""
    sampled: bool = False
    """Whether that limit is held by looking from time to time, so that more was used for a moment."""
    written: int = 0
    """Bytes that it wrote to disks."""
    reason: str | None = None
    """Why the command was never run."""
    changes: tuple[Change, ...] = ()
    """Protected files that changed while it ran."""

    def changes_text(self) -> str | None:
        """Which protected files changed, for the reader of the output."""
        if not self.changes:
            return None
        shown = [change.text() for change in self.changes[:_MOST_TOLD]]
        rest = len(self.changes) - len(shown)
        more = [f"and {rest:,} more"] if rest else []
        return f"Protected files changed while it ran: {'; '.join([*shown, *more])}"

    def undo_text(self) -> str | None:
        """The one command that brings back what was put back, for the user alone: the model is not to suggest it."""
        commands = [change.undo for change in self.changes[:_MOST_TOLD] if change.undo is not None]
        if not commands:
            return None
        return (
            "If you made these changes yourself while it ran, bring them back when no command runs: "
            f"{' && '.join(commands)}"
        )

    def limit_text(self) -> str | None:
        """Which limit ended it, for the reader of the output."""
        if self.limit is None:
            return None
        how = " (it is watched by sampling, so more may have been used for a moment)" if self.sampled else ""
        return f"It ran into the limit {self.limit}{how}."


class RunningCommand(Protocol):
    """A command that was started. It is watched and its output drained whether or not a caller waits."""

    @property
    def tier(self) -> TierName:
        """The tier that confines the command."""
        ...

    @property
    def finished(self) -> CommandResult | None:
        """How it ended, as soon as it has."""
        ...

    async def write(self, data: bytes) -> None:
        """To its stdin; waits while it does not read. Closed when it has ended or stdin was not kept open."""
        ...

    def close_stdin(self) -> None:
        """End of file for it (on a terminal: Ctrl-D). Calling it twice has no effect."""
        ...

    def take(self) -> Output:
        """What was written since the last `take`, within the same bound. The rest is counted in its total."""
        ...

    def pause(self) -> None:
        """Read no more of its stdout until `resume`: soon it cannot write. What it left at its end is read anyway."""
        ...

    def resume(self) -> None:
        """Read on. Both have no effect when it is so already."""
        ...

    def terminate(self) -> None:
        """Ask it to end (SIGTERM, to the command itself), in a tier that can."""
        ...

    async def wait(self, timeout_s: float | None = None) -> CommandResult | None:
        """How it ended; None when it still runs after so long. Waiting ends nothing, and neither does cancelling."""
        ...

    async def kill(self) -> CommandResult:
        """End the whole tree, daemons included, and wait until it is gone. Calling it twice has no effect."""
        ...


OnOutput = Callable[[bytes], None]
"""Called on the loop with each piece as it comes; must return at once."""


class TierReport(msgspec.Struct, frozen=True):
    """The result of the self-test of a tier."""

    tier: TierName
    version: str
    attempts: tuple[str, ...]
    """What was tried from inside, and held."""
    not_covered: tuple[str, ...] = ()
    """What this tier cannot hold, in words for people."""


class CommandRunner(Protocol):
    """Runs commands in one tier. There is no falling back to another once it was tried out, and none to no sandbox."""

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What that tier cannot hold, in words for people."""
        ...

    @property
    def expected_tier(self) -> TierName | None:
        """The tier that commands run in, as far as is known by now; None where they will be refused."""
        ...

    @property
    def is_writing(self) -> bool:
        """Whether a command runs now that may write files of a root."""
        ...

    async def check(self) -> TierReport:
        """The self-test, once; SandboxUnavailable names the reason and what to install."""
        ...

    async def start(
        self, command: Command, on_output: OnOutput | None = None, on_error: OnOutput | None = None
    ) -> RunningCommand:
        """Start it. SandboxUnavailable, SandboxError (a root was swapped) or InvalidParams before anything runs.

        With `on_error` its stderr is a pipe of its own: that is told of it, and the output is its stdout alone.
        """
        ...

    async def run(
        self, command: Command, *, timeout_s: float | None = None, on_output: OnOutput | None = None
    ) -> CommandResult:
        """Start it and wait. At the deadline, and when this is cancelled, its whole tree is killed first."""
        ...

    async def close(self) -> None:
        """Kill whatever still runs; 0 survivors."""
        ...
