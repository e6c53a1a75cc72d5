"""The flags that hold for every verb, before it or after it, and the settings that come of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tertulia.cli.output.debug_log import DebugLog
    from tertulia.session.settings.settings import LoadedSettings

_DIRECTORY = click.Path(exists=True, file_okay=False, resolve_path=True)
_NEW_DIRECTORY = click.Path(file_okay=False, resolve_path=True)
"""One that may be missing: `load` says so, unless a verb that stands in for Codex has left it out."""


class GlobalFlags:
    """The global flags of a command line. Of a flag given twice the later counts; lists are joined."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        """The flags' values, by the names of settings."""
        self.overrides: list[str] = []
        self.mcp = True
        """Whether MCP servers are used."""
        self.plain = False
        """Whether the terminal only appends lines."""
        self.debug: DebugLog | None = None
        """The log that `--debug` began."""

    def take(self, name: str, value: Any) -> None:
        """Take the value of one flag into account."""
        if name == "no_mcp":
            self.mcp = False
        elif name == "plain":
            self.plain = self.plain or value
        elif name == "debug":
            self._start_log()
        elif name == "overrides":
            self.overrides.extend(value)
        elif isinstance(value, tuple):
            self.values[name] = [*self.values.get(name, ()), *value]
        else:
            self.values[name] = value

    def missing_roots(self) -> list[str]:
        """The directories of `--add-dir` that do not exist."""
        return [root for root in self.values.get("writable_roots", ()) if not Path(root).is_dir()]

    def _start_log(self) -> None:
        if self.debug is None:
            # Imported here: few command lines want it.
            from tertulia.cli.output.debug_log import start_debug_log

            self.debug = start_debug_log()

    def load(self, cwd: Path | None = None) -> LoadedSettings:
        """Load the settings from all their places, with these flags on top.

        Args:
            cwd: The working directory; None: the one that the flags name, or that of the process.

        Raises:
            InvalidParamsError: what is wrong, and where.
        """
        # Imported here: neither --help nor --version loads settings.
        from tertulia.session.settings.settings import load_settings

        for root in self.missing_roots():
            raise click.BadParameter(f"Directory {root!r:.200} does not exist.", param_hint="'--add-dir'")
        values = self.values if cwd is None else {**self.values, "cwd": str(cwd)}
        return load_settings(cwd=Path(values.get("cwd", ".")), flags=values, overrides=self.overrides, mcp=self.mcp)


def _setting_word(setting: str, *words: str) -> Callable[[str], str]:
    """The type of a flag with a word of a setting; a refusal lists the words as the flag has them."""

    def parse(value: str) -> str:
        # Imported here: --help needs neither.
        from tertulia.errors import InvalidParamsError
        from tertulia.protocol.name_hints import word_hint
        from tertulia.session.settings.values import parse_setting

        try:
            parse_setting(setting, value)
        except InvalidParamsError:
            hint = word_hint(value, words)
            raise click.BadParameter(f"must be {_listed(words, 'or')}, not {value!r:.80}{hint}") from None
        return value

    return parse


def parse_seconds(value: str) -> float:
    """The type of a flag with a time: more than nothing, and not for ever."""
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise click.BadParameter(f"must be a positive number of seconds, not {value!r:.80}")
    return seconds


def whole_number(least: int, most: int | None = None) -> Callable[[str | int], int]:
    """The type of a flag with a number between these."""

    def parse(value: str | int) -> int:
        try:
            number = int(value)
        except ValueError:
            number = least - 1
        if number < least or (most is not None and number > most):
            bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
            raise click.BadParameter(f"must be a whole number {bounds}, not {str(value)!r:.80}")
        return number

    return parse


def _listed(words: Sequence[str], last: str = "and") -> str:
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


_SANDBOX = _setting_word("sandbox", "read-only", "workspace-write", "danger-full-access")
_APPROVAL = _setting_word("approval_policy", "untrusted", "on-request", "on-failure", "never")
_STORAGE = _setting_word("storage_policy", "full", "headers-only", "none", "ttl:SECONDS")


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
    _flag(
        "sandbox",
        "-s",
        "--sandbox",
        metavar="MODE",
        type=_SANDBOX,
        help="read-only, workspace-write or danger-full-access.",
    ),
    _flag(
        "approval_policy",
        "-a",
        "--ask-for-approval",
        metavar="WHEN",
        type=_APPROVAL,
        help="untrusted, on-request, on-failure, never.",
    ),
    _flag(
        "storage_policy",
        "--storage",
        metavar="POLICY",
        type=_STORAGE,
        help="full, headers-only, none or ttl:SECONDS. On a stored session a stricter one erases texts.",
    ),
    _flag(
        "writable_roots",
        "--add-dir",
        metavar="DIR",
        multiple=True,
        type=_NEW_DIRECTORY,
        help="One more directory that may be written; repeatable.",
    ),
    _flag(
        "slots",
        "--slots",
        metavar="NUMBER",
        type=whole_number(1, 1_000),
        help="How many conversations may work at once; 1 unless set.",
    ),
    _flag("no_mcp", "--no-mcp", is_flag=True, default=None, help="Start no MCP server of your settings or a project."),
    _flag(
        "allow_home_workspace",
        "--allow-home-workspace",
        is_flag=True,
        default=None,
        help="Let commands write a workspace that is your home.",
    ),
    _flag(
        "debug",
        "--debug",
        is_flag=True,
        default=None,
        help="Log to a file, and show where in the code a failure came from.",
    ),
)


instructions_option = click.option(
    "--instructions",
    metavar="FILE|TEXT",
    help="Base instructions: of a file that exists, else the text itself. One word with a slash or a file's ending is "
    "always a file.",
)
"""A decorator of the verbs that begin a conversation; `exec/instructions.py` resolves its value."""

agent_flag = _flag("agent", "--agent", metavar="NAME", help="Which agent of config.toml it is; see `agents ls`.")
"""A decorator of the verbs that begin a conversation."""


class _PlainOption(click.Option):
    """`--plain`, which ACCESSIBLE=1 and TERM=dumb mean as well."""

    def value_from_envvar(self, ctx: click.Context) -> bool:
        return str(self.resolve_envvar_value(ctx)).lower() in _PLAIN_VALUES


_PLAIN_VALUES = frozenset({"1", "true", "yes", "on", "dumb"})

plain_flag = _flag(
    "plain",
    "--plain",
    cls=_PlainOption,
    is_flag=True,
    default=None,
    envvar=["ACCESSIBLE", "TERM"],
    help="Append lines, draw nothing: for screen readers and logs. ACCESSIBLE=1 and TERM=dumb mean the same.",
)
"""A decorator of the verbs that open the terminal."""


def global_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of the group and of each verb. The verb finds a `GlobalFlags` in its context's object."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


def global_flags_but_model(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a verb that takes `-m` several times, as an option of its own."""
    for flag in reversed(_FLAGS[1:]):
        command = flag(command)
    return command


class VerbGroup(click.Group):
    """A verb with commands; a command that it does not have is refused with the one that was probably meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-"):
            # Imported here: most command lines have no mistake.
            from tertulia.cli.other_words import command_hint

            ctx.fail(
                f"No such command {args[0]!r:.80}{command_hint(args[0], names) or f'; there are {_listed(names)}'}"
            )
        return super().resolve_command(ctx, args)


def verb_group(name: str, about: str, epilog: str) -> click.Group:
    """A verb that has commands of its own; alone it prints its help."""

    @click.group(name, cls=VerbGroup, help=about, epilog=epilog, invoke_without_command=True)
    @global_flags
    @click.pass_context
    def group(context: click.Context) -> None:
        if context.invoked_subcommand is None:
            click.echo(context.get_help())

    return group
