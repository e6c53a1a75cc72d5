"""`tertulia grants`: lists what was allowed for a project, and takes it back."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from tertulia.cli.global_flags import GlobalFlags, VerbGroup, global_flags
from tertulia.cli.output.tables import cut_to_width, format_count
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.errors import NotFoundError, StorageError
from tertulia.events.clock import SystemClock
from tertulia.policy.approvals.project_grants import GrantsFile, ProjectGrant
from tertulia.session.settings.settings import LoadedSettings

_MORE = """
\b
Examples:
  tertulia grants
  tertulia grants ls --all
  tertulia grants revoke project-3f2a51c09b7e
  tertulia grants revoke --project .
"""
_MORE_LS = """
\b
Examples:
  tertulia grants ls
  tertulia -C ~/project grants ls
  tertulia grants ls --all
"""
_MORE_REVOKE = """
\b
Examples:
  tertulia grants revoke project-3f2a51c09b7e
  tertulia grants revoke --project ~/project

\b
Exit codes:
  0  taken back
  1  there is no such grant, or none that still holds
  2  usage or configuration
"""
_DAY_S = 86_400
_HOUR_S = 3_600
_WIDTH = 100


@click.group("grants", cls=VerbGroup, invoke_without_command=True, epilog=_MORE)
@global_flags
@click.pass_context
def command(context: click.Context) -> int:
    """List and take back what you have allowed for a project.

    When an agent asks whether it may do something, a yes can hold for the project. It is kept in your own data
    directory for 30 days, holds for exactly what was shown, and a script that has changed since is asked about again.
    """
    return context.invoke(ls) if context.invoked_subcommand is None else 0


@command.command("ls", epilog=_MORE_LS)
@click.option("everywhere", "--all", is_flag=True, help="Of all projects, not only of this directory.")
@global_flags
@click.pass_obj
def ls(flags: GlobalFlags, *, everywhere: bool = False) -> int:
    """Show what holds for this directory, and for how long."""
    loaded = flags.load()
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    here = os.path.realpath(loaded.settings.cwd or ".")
    grants = _read(_grants_file(loaded))
    chosen = [grant for grant in grants if everywhere or grant.project == here]
    for grant in chosen:
        _write_grant(out, grant)
    others = len(grants) - len(chosen)
    if not chosen:
        where = "in any project" if everywhere else f"in {here}"
        out.line((f"Nothing is allowed for longer than a session {where}.", "dim"))
    if others:
        out.line((f"{format_count(others, 'grant')} of other projects: `tertulia grants ls --all`.", "dim"))
    return 0


@command.command("revoke", epilog=_MORE_REVOKE)
@click.argument("grant_ids", nargs=-1, metavar="[ID]...")
@click.option("project", "--project", metavar="DIR", type=click.Path(path_type=Path), help="All grants of a directory.")
@global_flags
@click.pass_obj
def revoke(flags: GlobalFlags, *, grant_ids: Sequence[str], project: Path | None) -> int:
    """Take grants back: those with these IDs, or all of a project. It holds at once, in running sessions too."""
    if bool(grant_ids) == (project is not None):
        raise click.UsageError("give IDs or --project DIR; `tertulia grants ls --all` shows them")
    loaded = flags.load()
    out, file = TerminalOutput(sys.stdout, loaded.environment.variables), _grants_file(loaded)
    _read(file)
    if project is not None:
        count = file.forget(os.path.realpath(project))
        out.line(f"{format_count(count, 'grant')} of {os.path.realpath(project)} taken back.")
        return 0
    missing = [grant_id for grant_id in grant_ids if not file.revoke(grant_id)]
    if missing:
        raise NotFoundError(f"no grant {missing[0][:80]!r} holds; `tertulia grants ls --all` shows those that do")
    out.line(f"{format_count(len(grant_ids), 'grant')} taken back.")
    return 0


def _grants_file(loaded: LoadedSettings) -> GrantsFile:
    return GrantsFile(loaded.environment.home, SystemClock())


def _read(file: GrantsFile) -> list[ProjectGrant]:
    try:
        return file.read()
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else str(error)
        raise StorageError(
            f"{file.path}: {problem}; no grant holds until it is removed or a new one is given", file=str(file.path)
        ) from None


def _write_grant(out: TerminalOutput, grant: ProjectGrant) -> None:
    title, *bound = grant.matches
    out.line((cut_to_width(title, _WIDTH) if out.live else title, "bold"))
    out.line((f"  {grant.grant_id}, holds {_time_left(grant)} more, in {grant.project}", "dim"))
    for line in bound:
        out.line((f"  {line}", "dim"))


def _time_left(grant: ProjectGrant) -> str:
    seconds = grant.expires_at - SystemClock().now()
    if seconds >= _DAY_S:
        return format_count(int(seconds // _DAY_S), "day")
    return format_count(max(int(seconds // _HOUR_S), 1), "hour")
