"""The program `tertulia`: finds the verb, and turns whatever happens into one sentence and an exit code.

Verbs are imported when they are called for, so that starting one costs nothing of the others.

Exit codes: 0 done, 1 it failed, 2 usage or configuration, 124 our own timeout, 130 stopped by SIGINT or SIGTERM.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Sequence

import click

from tertulia.apps.errors_shown import explained
from tertulia.apps.global_flags import global_flags
from tertulia.errors import TertuliaError
from tertulia.policy.display_text import printable
from tertulia.policy.redaction import log_filter
from tertulia.sandbox.limits.open_files import raise_limit
from tertulia.version import __version__

VERBS = {
    "exec": "Do one task and print the answer.",
    "resume": "Go on with a stored session, or watch one that is in use.",
    "sessions": "List, show, replay, fork, export and remove what is stored.",
    "conv": "Open, ask, read and close conversations of a stored session.",
    "demo": "Watch two isolated conversations in one session; needs no key.",
    "models": "List models, fetch and remove the embedded one, try one out.",
    "agents": "List other agents that can do the work, try one out.",
    "app-server": "Serve a session as JSON-RPC over standard input and output.",
    "serve": "Serve sessions over WebSocket, and MCP, on a port.",
    "mcp-server": "Be an MCP server: conversations as tools.",
    "acp": "Be an agent in an editor: Zed, JetBrains, Neovim.",
    "mcp": "List, add, remove, trust and try out MCP servers.",
    "mcp-broker": "Serve all your MCP servers as one, to any other program.",
    "prompt": "Show all that a model would be told, and what each part costs.",
    "internal": "Call back from a program that an agent started.",
    "sandbox": "Run any command confined, as an agent's would be.",
    "schema": "Print the JSON Schema of all operations and events.",
    "doctor": "Show where each setting comes from, and what is wrong.",
    "bench": "Measure the runtime (from a source checkout).",
}
"""Every verb that there is; `apps` has a module for each."""

INTERRUPTED = 130

_NO_UI = (
    "The terminal UI is not in this version: `tertulia exec` does one task, `tertulia resume` goes on with it, "
    "`tertulia demo` shows the idea."
)

_EXAMPLES = """
\b
Examples:
  tertulia demo
  tertulia exec "What does this repository do?"
  git diff | tertulia exec -m scripted/review.yaml --json -
  tertulia -C ~/project -s read-only exec "List the open questions"
  tertulia resume --last
"""


class _Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        return importlib.import_module(f"tertulia.apps.{cmd_name.replace('-', '_')}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # Not click's way, which imports every verb for the sake of its first sentence.
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


_LOOK = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""Verbs inherit it."""


@click.group(cls=_Verbs, invoke_without_command=True, epilog=_EXAMPLES, context_settings=_LOOK)
@global_flags
@click.version_option(__version__, message="tertulia %(version)s")
@click.pass_context
def program(context: click.Context) -> None:
    """One session, many isolated conversations: an agent runtime.

    The options hold for every command and may stand before or after it.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        click.echo(f"\n{_NO_UI}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and give back its exit code."""
    _have_somewhere_to_write()
    _keep_the_log_clean()
    raise_limit()
    try:
        return _run(arguments)
    except OSError as error:
        # The reader left, or the disk is full: what is still buffered must not be tried again at exit.
        _let_go_of_output()
        if not isinstance(error, BrokenPipeError):
            _say(f"tertulia: {error.strerror}" + (f": {error.filename}" if error.filename else ""))
        return 1


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = program.main(args=arguments, prog_name="tertulia", standalone_mode=False)
        sys.stdout.flush()
        return code or 0
    except (click.ClickException, TertuliaError) as error:
        sentence, code = explained(error)
        _say(sentence)
        return code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED


def _say(sentence: str) -> None:
    print(printable(sentence.encode("utf-8", "backslashreplace").decode()), file=sys.stderr)


def _have_somewhere_to_write() -> None:
    """A stream that was closed before we started (`2>&-`) swallows what it gets."""
    # They stay open until the process ends, like those they stand for.
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _keep_the_log_clean() -> None:
    """What is logged where nobody has set up a log goes to standard error, by this handler."""
    handler = logging.lastResort
    if handler is not None and not handler.filters:
        handler.addFilter(log_filter())
        handler.setFormatter(_PrintableFormatter())


class _PrintableFormatter(logging.Formatter):
    """What servers and models say may stand in a log that is a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def _let_go_of_output() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
