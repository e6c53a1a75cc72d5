"""The entry point of `tertulia`: finds the verb, and turns every error into one sentence and an exit code.

A verb is imported when it is called, so that starting one does not cost the others.

Exit codes: 0 done, 1 it failed, 2 usage or configuration, 124 our own timeout, 130 stopped by SIGINT or SIGTERM.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Sequence

import click

from tertulia.cli.global_flags import GlobalFlags, agent_flag, global_flags, instructions_option, plain_flag
from tertulia.cli.stop_signals import INTERRUPTED
from tertulia.errors import InvalidParamsError, TertuliaError, ToolConflictError
from tertulia.policy.display_text import printable
from tertulia.policy.log_redaction import log_filter
from tertulia.sandbox.limits.open_files import raise_limit
from tertulia.version import __version__

FAILED = 1
MISUSED = 2

_MISTAKES = (InvalidParamsError, ToolConflictError)
"""Errors that a change of the command line or the configuration can mend."""


def explain_error(error: click.ClickException | TertuliaError) -> tuple[str, int]:
    """The sentence and the exit code for an error."""
    if isinstance(error, TertuliaError):
        return f"tertulia: {error.message}", MISUSED if isinstance(error, _MISTAKES) else FAILED
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context is not None else "tertulia"
    problem = _problem(error)
    stop = "" if problem.endswith((".", "?", "!")) else "."
    return f"{command}: {problem}{stop} See `{command} --help`.", MISUSED


def _problem(error: click.ClickException) -> str:
    """What click says, but for an option that does not exist: it knows only its own."""
    if not isinstance(error, click.NoSuchOption):
        return error.format_message()
    # Imported here: most command lines have no mistake.
    from tertulia.cli.other_words import option_hint

    parameters = [] if error.ctx is None else error.ctx.command.get_params(error.ctx)
    return f"{error.message.rstrip('.')}{option_hint(error.option_name, [o for p in parameters for o in p.opts])}"


VERBS = {
    "exec": "Do one task and print the answer.",
    "resume": "Continue a stored session, or watch one that is in use.",
    "attach": "Show a session that another process holds or serves.",
    "init": "Write a config.toml and an AGENTS.md for this project.",
    "import": "Take over settings, MCP servers and agents of other programs.",
    "replay": "Play a stored session again, or ask another model the same.",
    "sessions": "List, show, replay, fork, export and remove stored sessions.",
    "conv": "Open, message and close conversations of a stored session.",
    "demo": "Watch isolated conversations, also three at once; needs no key.",
    "login": "Keep the key of a model provider, and show what keys there are.",
    "logout": "Forget the key that was kept for a model provider.",
    "models": "List models, fetch and remove the embedded one, try one out.",
    "agents": "List the agents that are set up in config.toml.",
    "executors": "List other programs that can do the work, try one out.",
    "app-server": "Serve a session as JSON-RPC over standard input and output.",
    "serve": "Serve sessions over WebSocket, and MCP, on a port.",
    "dashboard": "Open the page of all sessions in the browser.",
    "mcp-server": "Serve conversations as the tools of an MCP server.",
    "acp": "Serve an editor as its agent: Zed, JetBrains, Neovim.",
    "mcp": "List, add, remove, trust and try out MCP servers.",
    "mcp-broker": "Serve all your MCP servers as one, to any other program.",
    "undo": "Take back what a session did to the files here.",
    "checkpoints": "List the recorded states of the files here.",
    "hooks": "List hooks, and trust those that a project defines.",
    "grants": "List and take back what you have allowed for a project.",
    "prompt": "Show what a model is sent first, and what each part costs.",
    "internal": "Call a tool of the session from a program of an agent.",
    "sandbox": "Run any command in the sandbox that an agent's commands get.",
    "schema": "Print the JSON Schema of all operations and events.",
    "completion": "Print a script with which a shell completes command lines.",
    "doctor": "Show where each setting comes from, and what is wrong.",
    "eval": "Measure models and agents by tasks with hidden checks.",
    "bench": "Measure the runtime (from a source checkout).",
}
"""Every verb, with its line in `tertulia --help`."""
_HOMES = {
    "acp": "serve.acp",
    "app-server": "serve.app_server",
    "bench": "inspect.bench",
    "complete": "completion.complete",
    "completion": "completion.command",
    "dashboard": "serve.dashboard",
    "doctor": "inspect.doctor",
    "eval": "evals.command",
    "exec": "exec.command",
    "hooks": "inspect.hooks",
    "import": "imports.command",
    "login": "models.login",
    "logout": "models.logout",
    "mcp": "mcp.command",
    "mcp-broker": "serve.mcp_broker",
    "mcp-server": "serve.mcp_server",
    "models": "models.command",
    "prompt": "inspect.prompt",
    "replay": "sessions.replay",
    "sandbox": "inspect.sandbox",
    "schema": "inspect.schema",
    "serve": "serve.web",
    "sessions": "sessions.command",
}
"""Where a verb is that has no module of its name directly in `cli`."""
_HIDDEN = {"complete"}
"""Verbs for programs, which no list shows."""

_EXAMPLES = """
\b
Examples:
  tertulia
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
        if not _is_verb(cmd_name):
            return None
        return importlib.import_module(f"tertulia.cli.{_HOMES.get(cmd_name, cmd_name)}").command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not _is_verb(args[0]) and not args[0].startswith("-"):
            # Imported here: most command lines have no mistake.
            from tertulia.cli.other_words import verb_hint

            ctx.fail(f"No such command {args[0]!r:.80}{verb_hint(args[0], VERBS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # Not click's way, which imports every verb for the sake of its first sentence.
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


def _is_verb(name: str) -> bool:
    return name in VERBS or name in _HIDDEN


_CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""Of the program and, inherited, of every verb."""


@click.group(cls=_Verbs, invoke_without_command=True, epilog=_EXAMPLES, context_settings=_CONTEXT_SETTINGS)
@instructions_option
@agent_flag
@plain_flag
@global_flags
@click.version_option(__version__, message="tertulia %(version)s")
@click.pass_context
def program(context: click.Context, *, instructions: str | None) -> int:
    """One session, many isolated conversations: an agent runtime.

    Without a command it opens the terminal: all conversations of a new session, and what they ask. The options hold
    for every command and may stand before or after it.
    """
    if context.invoked_subcommand is not None:
        if instructions is not None:
            raise click.UsageError("--instructions goes after `exec`, or stands without a command")
        return 0
    # Imported here: no verb needs it.
    from tertulia.cli.open_terminal import at_terminal, open_new

    if at_terminal():
        text = None
        if instructions is not None:
            # Imported here: few command lines name any.
            from tertulia.cli.exec.instructions import resolve_instructions

            text = resolve_instructions(instructions)
        return open_new(context.find_root().ensure_object(GlobalFlags), text)
    click.echo(context.get_help())
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and give back its exit code."""
    _replace_closed_streams()
    _filter_last_resort_log()
    raise_limit()
    flags = GlobalFlags()
    try:
        return _run(arguments, flags)
    except OSError as error:
        # The reader is gone, or the disk is full: what is still buffered must not be written again at exit.
        _discard_output()
        if not isinstance(error, BrokenPipeError):
            _print_error(f"tertulia: {error.strerror}" + (f": {error.filename}" if error.filename else ""))
            _print_stack(error, flags)
        return 1
    finally:
        if flags.debug is not None:
            flags.debug.close()


def _run(arguments: Sequence[str] | None, flags: GlobalFlags) -> int:
    try:
        code = program.main(args=arguments, prog_name="tertulia", standalone_mode=False, obj=flags)
        sys.stdout.flush()
        return code or 0
    except (click.ClickException, TertuliaError) as error:
        sentence, code = explain_error(error)
        _print_error(sentence)
        _print_stack(error, flags)
        return code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED


def _print_error(sentence: str) -> None:
    print(printable(sentence.encode("utf-8", "backslashreplace").decode()), file=sys.stderr)


def _print_stack(error: BaseException, flags: GlobalFlags) -> None:
    if flags.debug is not None:
        _print_error(flags.debug.add_failure(error))


def _replace_closed_streams() -> None:
    """Send output to /dev/null where a stream was closed before the start (`2>&-`)."""
    # Open until the process ends, like the streams they replace.
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _filter_last_resort_log() -> None:
    """Redact what Python logs to standard error because no log is set up, and make it printable."""
    handler = logging.lastResort
    if handler is not None and not handler.filters:
        handler.addFilter(log_filter())
        handler.setFormatter(_PrintableFormatter())


class _PrintableFormatter(logging.Formatter):
    """Makes a log line safe for a terminal: it may quote servers and models."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def _discard_output() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
