"""`tertulia eval import`: makes a suite of SWE-bench-like instances and a local repository."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags, parse_seconds
from tertulia.cli.output.tables import format_count
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.errors import InvalidParamsError
from tertulia.evals.instances import ImportOptions, import_instances, read_instances

_MORE = """
\b
Examples:
  tertulia eval import instances.jsonl --repo ~/src/flask --into flask-suite
  tertulia eval import lite.json --repo django/django=~/src/django --only 'django__*' --into lite \\
      --test-command 'python tests/runtests.py --parallel 1'
"""


@click.command("import", epilog=_MORE)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "repos",
    "--repo",
    metavar="[OWNER/NAME=]PATH",
    multiple=True,
    required=True,
    help="A local git repository that has the commits; without a name for all instances. Repeatable.",
)
@click.option("suite", "--into", metavar="SUITE", type=click.Path(path_type=Path), required=True, help="The suite.")
@click.option("--only", metavar="ID", multiple=True, help="Only these instances, such as `django__*`; repeatable.")
@click.option(
    "--test-command",
    metavar="COMMAND",
    default="python3 -m pytest -q",
    help="What runs the tests, which are its last arguments. [python3 -m pytest -q]",
)
@click.option("timeout_s", "--timeout", metavar="SECONDS", type=parse_seconds, default=3600.0, help="Of one run.")
@click.option("check_s", "--test-timeout", metavar="SECONDS", type=parse_seconds, default=1800.0, help="Of the tests.")
@global_flags
@click.pass_obj
def command(
    flags: GlobalFlags,
    *,
    file: Path,
    repos: Sequence[str],
    suite: Path,
    only: Sequence[str],
    test_command: str,
    timeout_s: float,
    check_s: float,
) -> int:
    """Make a suite of SWE-bench-like instances.

    FILE has instances as JSON or JSONL: instance_id, repo, base_commit, problem_statement, patch, test_patch,
    FAIL_TO_PASS and PASS_TO_PASS. Each becomes a task with the files of its commit, without the history. `tertulia
    eval check` then says whether its tests can be run here.
    """
    variables = flags.load().environment.variables
    chosen = [
        instance
        for instance in read_instances(file)
        if not only or any(fnmatchcase(instance.instance_id, pattern) for pattern in only)
    ]
    if not chosen:
        raise InvalidParamsError(f"{file}: no instance has a name that --only gives")
    words = tuple(shlex.split(test_command))
    options = ImportOptions(_repositories(repos), words, timeout_s, check_s)
    tasks = asyncio.run(import_instances(chosen, suite, options, variables))
    TerminalOutput(sys.stdout, variables).line(f"{format_count(len(tasks), 'task')} in {suite}")
    return 0


def _repositories(repos: Sequence[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for repo in repos:
        name, equals, path = repo.partition("=")
        place = Path(path if equals else repo).expanduser()
        if not place.is_dir():
            raise InvalidParamsError(f"--repo {repo!r:.200}: {place} is not a directory")
        found[name if equals else "*"] = place.resolve()
    return found
