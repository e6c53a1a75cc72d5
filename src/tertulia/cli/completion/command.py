"""`tertulia completion`: prints the script that completes command lines of `tertulia` in a shell."""

from __future__ import annotations

import os
import shlex
import sys
from importlib.resources import files
from pathlib import Path

import click

from tertulia.cli.completion.complete import SHELLS
from tertulia.cli.global_flags import global_flags

_MORE = """
\b
Examples:
  tertulia completion bash > ~/.local/share/bash-completion/completions/tertulia
  tertulia completion zsh > ~/.zfunc/_tertulia
  tertulia completion fish > ~/.config/fish/completions/tertulia.fish

\b
Examples for this shell only:
  eval "$(tertulia completion bash)"
  eval "$(tertulia completion zsh)"
  tertulia completion fish | source
"""
_PROGRAM = "@PROGRAM@"
"""What stands in the scripts for the program that they ask."""


@click.command("completion", epilog=_MORE)
@click.argument("shell", type=click.Choice(SHELLS))
@global_flags
def command(*, shell: str) -> int:
    """Print a script that completes command lines in a shell: bash, zsh or fish.

    Verbs, options and their values are completed, and the ids of stored sessions, models and providers. For zsh the
    directory of the script has to be in `fpath` before `compinit` runs.
    """
    script = files(__package__ or "").joinpath(f"tertulia.{shell}").read_text()
    click.echo(script.replace(_PROGRAM, shlex.join(_program())), nl=False)
    return 0


def _program() -> list[str]:
    """How this program is started again, from any directory, and without looking for it there."""
    started = Path(sys.argv[0]).absolute()
    if started.name == "tertulia" and os.access(started, os.X_OK):
        return [str(started)]
    return [sys.executable, "-P", "-m", "tertulia"]
