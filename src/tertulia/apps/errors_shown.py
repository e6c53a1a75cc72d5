"""What a person at a terminal reads when something is wrong: one sentence, and the way out."""

from __future__ import annotations

import click

from tertulia.errors import InvalidParamsError, TertuliaError, ToolConflictError

FAILED = 1
MISUSED = 2

_MISTAKES = (InvalidParamsError, ToolConflictError)
"""What the command line or the configuration can mend."""


def explained(error: click.ClickException | TertuliaError) -> tuple[str, int]:
    """The sentence and the exit code."""
    if isinstance(error, TertuliaError):
        return f"tertulia: {error.message}", MISUSED if isinstance(error, _MISTAKES) else FAILED
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context is not None else "tertulia"
    problem = error.format_message()
    stop = "" if problem.endswith((".", "?", "!")) else "."
    return f"{command}: {problem}{stop} See `{command} --help`.", MISUSED
