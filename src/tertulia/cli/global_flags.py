"""The flags that hold for every verb, before it or after it, and the settings that come of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tertulia.session.settings.settings import LoadedSettings, load_settings

_DIRECTORY = click.Path(exists=True, file_okay=False, resolve_path=True)


class GlobalFlags:
    """What was said on the command line so far. Of a flag given twice the later counts, of a list both."""

    def __init__(self) -> None:
        self.flags: dict[str, Any] = {}
        """By the names of settings."""
        self.overrides: list[str] = []

    def take(self, name: str, value: Any) -> None:
        """Note one flag."""
        if name == "overrides":
            self.overrides.extend(value)
        elif isinstance(value, tuple):
            self.flags[name] = [*self.flags.get(name, ()), *value]
        else:
            self.flags[name] = value

    def load(self) -> LoadedSettings:
        """The settings from all their places, these flags on top. InvalidParams says what is wrong, and where."""
        return load_settings(cwd=Path(self.flags.get("cwd", ".")), flags=self.flags, overrides=self.overrides)


def _store_flag(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    given = context.find_root().ensure_object(GlobalFlags)
    if value is not None and value != ():
        given.take(parameter.name, value)


def _flag(*names: str, **attributes: Any) -> Callable[[Any], Any]:
    return click.option(*names, callback=_store_flag, expose_value=False, **attributes)


_FLAGS = (
    _flag("model", "-m", "--model", metavar="PROVIDER/MODEL", help="Who answers; scripted/FILE plays a script."),
    _flag("cwd", "-C", "--cd", metavar="DIR", type=_DIRECTORY, help="Work in this directory."),
    _flag(
        "overrides",
        "-c",
        "--config",
        metavar="KEY=VALUE",
        multiple=True,
        help="Any setting of config.toml; repeatable.",
    ),
    _flag("sandbox", "-s", "--sandbox", metavar="MODE", help="read-only, workspace-write or danger-full-access."),
    _flag(
        "approval_policy",
        "-a",
        "--ask-for-approval",
        metavar="WHEN",
        help="untrusted, on-request, on-failure, never.",
    ),
    _flag("storage_policy", "--storage", metavar="POLICY", help="full, headers-only, none or ttl:SECONDS."),
    _flag(
        "writable_roots",
        "--add-dir",
        metavar="DIR",
        multiple=True,
        type=_DIRECTORY,
        help="One more directory that may be written; repeatable.",
    ),
    _flag(
        "allow_home_workspace",
        "--allow-home-workspace",
        is_flag=True,
        default=None,
        help="Let commands write a workspace that is your home.",
    ),
)


def global_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of the group and of each verb. The verb finds a `GlobalFlags` in its context's object."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command
