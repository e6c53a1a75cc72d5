"""Finds out which tier can confine commands here, before the first command, and what to do where none can.

A session asks when it begins. So neither tier is loaded here, and nothing but bubblewrap itself is started, once in a
process: the self-test of a tier still comes before its first command.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from tertulia.errors import ClosedError, SandboxUnavailableError
from tertulia.policy.rights import Rights
from tertulia.protocol.events import WarningEvent
from tertulia.sandbox.runner import TierChoice, TierName
from tertulia.sandbox.seccomp_numbers import current_machine

BWRAP = "/usr/bin/bwrap"
OLDEST = (0, 8, 0)
_TRIAL_TIMEOUT_S = 10
_TRIAL = ("--unshare-all", "--unshare-user", "--cap-drop", "ALL", "--die-with-parent", "--ro-bind", "/", "/")
_INSTALLERS: Mapping[str, str] = {
    "alpine": "apk add bubblewrap",
    "arch": "pacman -S bubblewrap",
    "debian": "apt install bubblewrap",
    "fedora": "dnf install bubblewrap",
    "gentoo": "emerge sys-apps/bubblewrap",
    "opensuse": "zypper install bubblewrap",
    "rhel": "dnf install bubblewrap",
    "suse": "zypper install bubblewrap",
    "ubuntu": "apt install bubblewrap",
    "void": "xbps-install -S bubblewrap",
}
"""By the names that distributions give themselves, and those that they say they are like."""
_RELEASES = ("/etc/os-release", "/usr/lib/os-release")
_RELEASE_IDS = re.compile(r"^ID(?:_LIKE)?=[\"']?([^\"'\n]*)", re.MULTILINE)

NEEDS_WSL = "commands need Linux or macOS: on Windows run Tertulia in WSL (`wsl --install`)"

_tried: dict[tuple[object, ...], str | SandboxUnavailableError] = {}
"""The result of the last trial of each file: its version, or what was wrong."""


class TierOutlook(msgspec.Struct, frozen=True):
    """How commands will be confined."""

    tier: TierName | None
    """None where they are refused, because nothing can confine them."""
    message: str | None = None
    """The warning for people; None where it is the tier that was asked for."""


def tier_outlook(choice: TierChoice, *, waits: bool = True) -> TierOutlook:
    """The tier that commands will run in, unless its self-test fails.

    Blocks the first time; with `waits` off it does not, and a bubblewrap that was not tried yet is taken for good.
    """
    if sys.platform != "linux" or choice == "seatbelt":
        return _outlook_elsewhere(choice)
    if choice == "landlock":
        why_not = landlock_problem()
        return TierOutlook("landlock") if why_not is None else TierOutlook(None, refusal(why_not))
    problem = _problem(BWRAP, waits)
    if problem is None:
        return TierOutlook("bubblewrap")
    if choice == "bubblewrap":
        return TierOutlook(None, refusal(problem))
    why_not = landlock_problem()
    if why_not is not None:
        return TierOutlook(None, refusal(f"{problem}; and instead of it: {why_not}"))
    return TierOutlook("landlock", lesser_tier(problem))


def _outlook_elsewhere(choice: TierChoice) -> TierOutlook:
    """The same for Seatbelt, and for systems other than Linux."""
    if sys.platform == "win32":
        return TierOutlook(None, refusal(NEEDS_WSL))
    from tertulia.sandbox.macos.seatbelt_tier import seatbelt_problem

    problem = f"{choice} is of Linux" if choice in ("bubblewrap", "landlock") else seatbelt_problem()
    return TierOutlook("seatbelt") if problem is None else TierOutlook(None, refusal(problem))


def is_untried(choice: TierChoice) -> bool:
    """Whether asking again later may give another answer: bubblewrap is installed, and was not started yet."""
    if sys.platform != "linux" or choice not in ("auto", "bubblewrap"):
        return False
    identity = program_identity(BWRAP)
    return bool(identity) and identity not in _tried


def require_tier(choice: TierChoice, rights: Rights) -> None:
    """Raise SandboxUnavailable where commands are wanted and could only be refused. May block the first time."""
    if not _needs_tier(rights):
        return
    outlook = tier_outlook(choice, waits=False)
    if is_untried(choice) and (choice == "bubblewrap" or landlock_problem() is not None):
        # There is nothing else if it does not work, so it is tried out now.
        outlook = tier_outlook(choice)
    if outlook.tier is None:
        advice = "`-s danger-full-access` runs them without a sandbox"
        if sys.platform == "win32":
            advice = "`-c shell_mode=none -c include_apply_patch_tool=false` runs none"
        raise SandboxUnavailableError(f"{outlook.message}. {advice}")


def _needs_tier(rights: Rights) -> bool:
    return rights.sandbox != "danger_full_access" and (rights.shell or rights.allows_tool("apply_patch"))


def lesser_tier(why: str) -> str:
    """The sentence that commands run in the lesser tier, with the reason."""
    return (
        "commands run in the sandbox tier landlock, which holds less than bubblewrap; `tertulia doctor` says what it "
        f"does not hold. The reason: {why}"
    )


def refusal(why: str) -> str:
    """The sentence that commands are refused, with the reason."""
    return f"commands will be refused, because nothing here can confine them: {why}"


class SandboxNotice:
    """Publishes once in a session, as soon as it is known, that commands run in the lesser tier or will be refused."""

    LESSER, REFUSED = "sandbox_tier", "sandbox_unavailable"

    def __init__(self, choice: TierChoice, publish: Callable[[WarningEvent], object]) -> None:
        self._choice: TierChoice = choice
        self._publish = publish
        self._published: set[str] = set()

    def begin(self, rights: Rights, start: Callable[[Coroutine[Any, Any, None], str], object]) -> None:
        """Find out how commands will be confined, where there may be any; what takes time is left to a task."""
        if not _needs_tier(rights):
            return
        self._publish_outlook(tier_outlook(self._choice, waits=False))
        if is_untried(self._choice):
            start(self._try_out(), "sandbox tier")

    def publish_lesser(self, message: str) -> None:
        """The self-test has chosen the lesser tier: publish that."""
        self._publish_once(message, self.LESSER)

    async def _try_out(self) -> None:
        self._publish_outlook(await asyncio.to_thread(tier_outlook, self._choice))

    def _publish_outlook(self, outlook: TierOutlook) -> None:
        if outlook.message is not None:
            self._publish_once(outlook.message, self.LESSER if outlook.tier is not None else self.REFUSED)

    def _publish_once(self, message: str, code: str) -> None:
        if code not in self._published:
            self._published.add(code)
            with suppress(ClosedError):
                self._publish(WarningEvent(message, code))


def install_command() -> str:
    """The command that installs bubblewrap on this distribution."""
    text = next((Path(path).read_text("utf-8", "replace") for path in _RELEASES if os.path.exists(path)), "")
    names = " ".join(_RELEASE_IDS.findall(text)).lower().replace("-", " ").split()
    command = next((_INSTALLERS[name] for name in names if name in _INSTALLERS), None)
    if command is None:
        return "install the package `bubblewrap`"
    return f"install it: `{command if os.geteuid() == 0 else f'sudo {command}'}`"


def program_identity(program: str) -> tuple[object, ...]:
    """Which file it is; nothing where there is none."""
    try:
        status = os.lstat(program)
    except OSError:
        return ()
    return program, status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def bubblewrap_version(program: str) -> str:
    """Its version, having looked whose program it is and had it make namespaces, once of each file. Blocks.

    SandboxUnavailable says what is wrong, and what to do.
    """
    from tertulia.sandbox.mounts.kernel_calls import OLDEST_KERNEL, missing_calls

    current_machine()
    if missing_calls():
        raise SandboxUnavailableError(f"this kernel cannot mount by descriptor; Linux {OLDEST_KERNEL} or newer can")
    _check_owner(program)
    identity = program_identity(program)
    known = _tried.get(identity)
    if isinstance(known, str):
        return known
    try:
        version = _try_out(program)
    except SandboxUnavailableError as error:
        _tried[identity] = error
        raise
    _tried[identity] = version
    return version


def landlock_problem() -> str | None:
    """Why there is no Landlock here; None where there is."""
    if sys.platform != "linux":
        return "Landlock is of Linux"
    try:
        current_machine()
    except SandboxUnavailableError as error:
        return error.message
    from tertulia.sandbox.launcher import landlock

    if landlock.abi() > 0:
        return None
    return (
        "this kernel has no Landlock, or it is switched off (it must be among the words of /sys/kernel/security/lsm); "
        "Linux 5.13 or newer has it"
    )


def _problem(program: str, waits: bool) -> str | None:
    try:
        if waits:
            bubblewrap_version(program)
            return None
        current_machine()
        _check_owner(program)
    except SandboxUnavailableError as error:
        return error.message
    known = _tried.get(program_identity(program))
    return known.message if isinstance(known, SandboxUnavailableError) else None


def _check_owner(program: str) -> None:
    for path in (program, os.path.dirname(program)):
        try:
            status = os.lstat(path)
        except OSError:
            raise SandboxUnavailableError(f"{program} is missing; {install_command()}") from None
        if status.st_uid != 0 or status.st_mode & 0o022:
            raise SandboxUnavailableError(f"{path} is not root's alone, so it is not trusted; {install_command()}")
    if not stat.S_ISREG(os.lstat(program).st_mode):
        raise SandboxUnavailableError(f"{program} is not a file, so it is not trusted; {install_command()}")


def _try_out(program: str) -> str:
    """Have it say its version, from inside namespaces that it made."""
    try:
        ran = subprocess.run(
            [program, *_TRIAL, "--", program, "--version"],
            env={},
            capture_output=True,
            timeout=_TRIAL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        raise SandboxUnavailableError(f"{program} does not start; {install_command()}") from None
    if ran.returncode != 0:
        reason = ran.stderr.decode("utf-8", "replace").strip()[-300:] or f"exit code {ran.returncode}"
        raise SandboxUnavailableError(f"{program} cannot make namespaces here ({reason}); {_namespaces_advice()}")
    found = re.search(rb"bubblewrap (\d+)\.(\d+)\.(\d+)", ran.stdout)
    if found is None:
        raise SandboxUnavailableError(f"{program} does not say its version; {install_command()}")
    if tuple(int(part) for part in found.groups()) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise SandboxUnavailableError(
            f"{program} is {found[0].decode()}, at least {oldest} is needed; {install_command()}"
        )
    return found[0].decode()


def _namespaces_advice() -> str:
    """What keeps it from doing so, as far as that can be seen."""
    if _setting("user/max_user_namespaces") == "0":
        return "user namespaces are switched off: `sudo sysctl user.max_user_namespaces=16384`"
    if _setting("kernel/unprivileged_userns_clone") == "0":
        return "they are kept from ordinary users: `sudo sysctl kernel.unprivileged_userns_clone=1`"
    if _setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "AppArmor keeps them from ordinary users (kernel.apparmor_restrict_unprivileged_userns = 1) unless a "
            "profile for bwrap allows them"
        )
    return "in a container, the container must be allowed to make them"


def _setting(name: str) -> str | None:
    try:
        return Path("/proc/sys", name).read_text("ascii").strip()
    except OSError:
        return None
