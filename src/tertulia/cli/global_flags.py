"""The flags that hold for every verb, before it or after it, and the settings that come of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tertulia.session.settings.settings import LoadedSettings

_DIRECTORY = click.Path(exists=True, file_okay=False, resolve_path=True)


class GlobalFlags:
    """The global flags of a command line. Of a flag given twice the later counts; lists are joined."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        """The flags' values, by the names of settings."""
        self.overrides: list[str] = []

    def take(self, name: str, value: Any) -> None:
        """Take the value of one flag into account."""
        if name == "overrides":
            self.overrides.extend(value)
        elif isinstance(value, tuple):
            self.values[name] = [*self.values.get(name, ()), *value]
        else:
            self.values[name] = value

    def load(self) -> LoadedSettings:
        """Load the settings from all their places, with these flags on top.

        Raises:
            InvalidParamsError: what is wrong, and where.
        """
        # Imported here: neither --help nor --version loads settings.
        from tertulia.session.settings.settings import load_settings

        return load_settings(cwd=Path(self.values.get("cwd", ".")), flags=self.values, overrides=self.overrides)


def _store_flag(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    flags = context.find_root().ensure_object(GlobalFlags)
    if value is not None and value != ():
        flags.take(parameter.name, value)


def _flag(*names: str, **attributes: Any) -> Callable[[Any], Any]:
    return click.option(*names, callback=_store_flag, expose_value=False, **attributes)


_FLAGS = (
    _flag(
        "model", "-m", "--model", metavar="PROVIDER/MODEL", help="The model that answers; scripted/FILE is a script."
    ),
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


def verb_group(name: str, about: str, epilog: str) -> click.Group:
    """A verb that has commands of its own; alone it prints its help."""

    @click.group(name, help=about, epilog=epilog, invoke_without_command=True)
    @global_flags
    @click.pass_context
    def group(context: click.Context) -> None:
        if context.invoked_subcommand is None:
            click.echo(context.get_help())

    return group
