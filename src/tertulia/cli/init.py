"""`tertulia init`: a commented `.tertulia/config.toml` and an `AGENTS.md` for the project in the working directory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.errors import InvalidParamsError

_MORE = """
\b
Examples:
  tertulia init
  tertulia init --only agents
  tertulia -C ~/project init

\b
Exit codes:
  0  written
  1  a file cannot be written
  2  usage, or all of it is there already: nothing was changed
"""
_CONFIG = """\
# What conversations may do in this project. A project's file can only take rights away: see docs/configuration.md.
# `tertulia doctor` shows where each setting comes from. Take away a `#` to let a line count.

# sandbox = "read-only"              # or workspace-write
# approval_policy = "untrusted"      # ask before everything that is not known to be a harmless read
# network_access = false
# storage_policy = "headers_only"    # store times and numbers of sessions, and no text
"""
_AGENTS = """\
# How to work here

What every conversation in this project is told first. Keep it short: it is part of every request.

- Build: (how)
- Test: (how; what must pass before you say that you are done)
- Style: (what a reviewer would send back)
- Leave alone: (generated files, other people's folders)
"""
_FILES = {"config": (".tertulia/config.toml", _CONFIG), "agents": ("AGENTS.md", _AGENTS)}


@click.command("init", epilog=_MORE)
@click.option("--only", type=click.Choice(list(_FILES)), help="Write only this one of the two files.")
@global_flags
@click.pass_obj
def command(flags: GlobalFlags, *, only: str | None) -> int:
    """Write a commented config.toml and an AGENTS.md for this project.

    Asks nothing. A file that is there already stays as it is.
    """
    loaded = flags.load()
    folder = Path(loaded.settings.cwd or ".")
    if folder == loaded.environment.user_home:
        raise InvalidParamsError(f"{folder} is your home, which is never a project; name one with -C DIR")
    wanted = [_FILES[only]] if only is not None else list(_FILES.values())
    missing = [(name, text) for name, text in wanted if not os.path.lexists(folder / name)]
    if not missing:
        names = " and ".join(name for name, _ in wanted)
        raise InvalidParamsError(
            f"{names} {'is' if len(wanted) == 1 else 'are'} in {folder} already; nothing was changed"
        )
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    for name, text in missing:
        _write(folder / name, text)
        out.line(("written ", "green"), str(folder / name))
    for name, _ in wanted:
        if name not in dict(missing):
            out.line(("left as it is ", "yellow"), str(folder / name))
    out.line("Next: fill them in, then `tertulia doctor` shows what holds, and `tertulia` starts.")
    return 0


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    # Never through a link, and never over what came meanwhile.
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with open(fd, "w", encoding="utf-8") as file:
        file.write(text)
