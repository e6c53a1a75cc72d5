"""Which paths of this user's home are guarded from commands, and which directories may be a workspace at all."""

from __future__ import annotations

import os
import os.path
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from tertulia.errors import InvalidParamsError
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.settings import Settings

if TYPE_CHECKING:
    from tertulia.sandbox.masks.guarded_paths import GuardedPaths


def guarded_paths_of(settings: Settings, environment: Environment) -> GuardedPaths:
    """Masks and protected paths of a session's commands. InvalidParams where a setting unmasks what is not masked."""
    chosen = settings.masks
    return _guarded_paths(
        tuple(dict.fromkeys(_homes(environment))),
        (str(environment.config_file.parent), str(environment.home)),
        add=tuple(chosen.get("add", ())),
        unmask=tuple(chosen.get("unmask", ())),
        is_root=os.geteuid() == 0,
    )


@lru_cache(maxsize=16)
def _guarded_paths(
    homes: tuple[str, ...], own: tuple[str, ...], *, add: tuple[str, ...], unmask: tuple[str, ...], is_root: bool
) -> GuardedPaths:
    """No disk access: hundreds of paths are joined, several times for each session that starts."""
    from tertulia.sandbox.masks.guarded_paths import guarded_paths

    return guarded_paths(homes, own, add=add, unmask=unmask, is_root=is_root)


def workspace_of(settings: Settings) -> str:
    """The session's own directory: links are followed once, now."""
    return os.path.realpath(settings.cwd or ".")


def check_workspace(settings: Settings, environment: Environment) -> None:
    """Refuse a workspace that no session may have, or that needs to be allowed. Nothing was made yet."""
    guarded = guarded_paths_of(settings, environment)
    for kind, folder in _writable(settings):
        mask = guarded.mask_over(folder)
        if mask is not None:
            raise InvalidParamsError(f"{kind} {folder} cannot be one: {mask.refusal()}; choose another directory")
    if settings.allow_home_workspace or settings.rights.sandbox == "read_only":
        return
    from tertulia.sandbox.masks.guarded_paths import is_inside

    homes = [os.path.realpath(home) for home in _homes(environment)]
    for kind, folder in _writable(settings):
        for home in homes:
            if is_inside(home, folder):
                what = "your home directory" if folder == home else f"a directory that your home {home} lies in"
                raise InvalidParamsError(
                    f"{kind} is {what} ({folder}): an agent could change whatever you keep there. Work in a project's "
                    "own directory (cwd, -C DIR), or only read (-s read-only), or allow it: --allow-home-workspace, "
                    "allow_home_workspace = true in your config.toml, or Settings(allow_home_workspace=True)"
                )
        if folder == "/":
            raise InvalidParamsError(f"{kind} is /, all of the system; work in a project's own directory (cwd, -C DIR)")


def _writable(settings: Settings) -> Iterator[tuple[str, str]]:
    yield "the workspace", workspace_of(settings)
    for root in settings.writable_roots or ():
        yield "a writable root", root


def _homes(environment: Environment) -> Iterator[str]:
    """What HOME names, and where the user's account has its home: after `su` the two differ."""
    yield str(environment.user_home.absolute())
    if sys.platform == "win32":
        return
    import pwd

    try:
        account = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return
    if account != "/" and os.path.isdir(account):
        yield account


def check_directory_exists(cwd: object) -> None:
    """InvalidParams where a path is named at which there is no directory.

    Only what a caller names now: a stored session is resumed even if its directory is gone. Whether the path may be
    named at all is settled with the other terms.
    """
    if isinstance(cwd, str) and os.path.isabs(cwd) and not os.path.isdir(cwd):
        raise InvalidParamsError(f"cwd: {cwd!r:.200} is not a directory")
