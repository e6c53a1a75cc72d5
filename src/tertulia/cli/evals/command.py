"""`tertulia eval`: does the tasks of a suite with one or several candidates, and prints how many each has passed."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from tertulia.cli.evals.run_suite import EvalRequest, run_suite
from tertulia.cli.global_flags import GlobalFlags, global_flags_but_model, parse_seconds, whole_number
from tertulia.cli.output.page_path import PagePath
from tertulia.evals.campaign import CampaignPlan, EvalBudget
from tertulia.evals.candidate import candidates_from_flags
from tertulia.evals.results import OUTCOMES
from tertulia.evals.suite import load_suite

COMMANDS = {
    "check": "tertulia.cli.evals.check",
    "compare": "tertulia.cli.evals.compare",
    "from-session": "tertulia.cli.evals.from_session",
    "import": "tertulia.cli.evals.import_instances",
    "report": "tertulia.cli.evals.report",
}
"""Words that are commands of their own when they come first; a suite of that name is written `./check`."""

_MORE = """
\b
Commands:
  tertulia eval check SUITE    Try out the checks: each must be able to fail and to pass.
  tertulia eval report FILE    Show results again, or write them as a page.
  tertulia eval compare A B    Say which tasks changed, and whether that is noise.
  tertulia eval import FILE    Make a suite of SWE-bench-like instances.
  tertulia eval from-session ID  Make a task of a stored session.

\b
Examples:
  tertulia eval -m openai/gpt-5
  tertulia eval evals -m openai/gpt-5 -m anthropic/claude-sonnet-4-5 --repeat 3 --jobs 4
  tertulia eval evals -m openai/gpt-5 --vary tool_profile=patch --vary tool_profile=editor
  tertulia eval evals --backend codex --backend claude -m openai/gpt-5 --only fix
  tertulia eval evals --candidate 'name=careful model=openai/gpt-5 reasoning_effort=high'
  tertulia eval evals -m openai/gpt-5 --max-cost 2.50 --html report.html

\b
Exit codes:
  0    every run was done, passed or not
  1    the budget was used up first
  2    usage or configuration
  130  stopped by SIGINT or SIGTERM; the same command goes on
"""


class _Eval(click.Command):
    """`eval`, in which some first words are commands of their own with their own options."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if not args or args[0] not in COMMANDS:
            return super().make_context(info_name, args, parent, **extra)
        other: click.Command = importlib.import_module(COMMANDS[args[0]]).command
        return other.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)


def _money(value: str) -> float:
    try:
        amount = float(value)
    except ValueError:
        amount = 0.0
    if not 0 < amount < 1e9:
        raise click.BadParameter(f"must be a positive number of US dollars, not {value!r:.80}")
    return amount


@click.command("eval", cls=_Eval, epilog=_MORE)
@click.argument("suite", default="evals", metavar="[SUITE]")
@click.option("models", "-m", "--model", metavar="PROVIDER/MODEL", multiple=True, help="A candidate; repeatable.")
@click.option("backends", "--backend", metavar="NAME", multiple=True, help="An executor as a candidate; repeatable.")
@click.option("agents", "--agent", metavar="NAME", multiple=True, help="An agent as a candidate; repeatable.")
@click.option(
    "specs",
    "--candidate",
    metavar="'KEY=VALUE …'",
    multiple=True,
    help="A candidate with several parts: name, model, backend, agent, and any setting; repeatable.",
)
@click.option(
    "variations",
    "--vary",
    metavar="KEY=VALUE",
    multiple=True,
    help="A setting that is tried out with every candidate; several values of one KEY side by side.",
)
@click.option("--only", metavar="TASK|KIND", multiple=True, help="Only these tasks, such as `fix-*`; repeatable.")
@click.option("--repeat", metavar="N", type=whole_number(1, 1_000), default=1, help="Do every task N times.")
@click.option("--jobs", metavar="N", type=whole_number(1, 64), default=1, help="How many runs go on at once.")
@click.option("timeout_s", "--timeout", metavar="SECONDS", type=parse_seconds, help="The most that one run may take.")
@click.option("--max-tokens", metavar="N", type=whole_number(1), help="Stop when all runs together have used so many.")
@click.option("--max-cost", metavar="USD", type=_money, help="Stop when all runs together have cost so much.")
@click.option("--max-time", metavar="SECONDS", type=parse_seconds, help="Stop after so long.")
@click.option(
    "--retry",
    metavar="OUTCOME",
    multiple=True,
    type=click.Choice([name for name in OUTCOMES if name not in ("passed", "budget")]),
    help="Do runs again that ended so, such as `provider`; repeatable.",
)
@click.option(
    "out",
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The results; the same command with the same file goes on. [eval-SUITE.jsonl]",
)
@click.option("--html", "html_file", metavar="FILE", type=PagePath(), help="A page.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON, one candidate a line.")
@global_flags_but_model
@click.pass_obj
def command(
    flags: GlobalFlags,
    *,
    suite: str,
    models: Sequence[str],
    backends: Sequence[str],
    agents: Sequence[str],
    specs: Sequence[str],
    variations: Sequence[str],
    only: Sequence[str],
    max_tokens: int | None,
    max_cost: float | None,
    max_time: float | None,
    retry: Sequence[str],
    out: Path | None,
    html_file: Path | None,
    as_json: bool,
    **counts: Any,
) -> int:
    """Measure models, agents and executors by tasks with hidden checks.

    Every task of SUITE (a folder; `evals` unless named) is done by every candidate, in a fresh copy of its repository
    and in a session of its own, confined. Then its hidden check judges what is there. Results are appended to a file
    as they come.
    """
    loaded_suite = load_suite(Path(suite), only)
    plan = CampaignPlan(
        loaded_suite,
        candidates_from_flags(models=models, backends=backends, agents=agents, specs=specs, variations=variations),
        common=_common(flags),
        budget=EvalBudget(max_tokens, max_cost, max_time),
        retried=frozenset(retry),
        **counts,
    )
    results = out or Path(f"eval-{loaded_suite.folder.name}.jsonl")
    request = EvalRequest(plan, flags, results.absolute(), html_file, as_json=as_json)
    return asyncio.run(run_suite(request, sys.stdout, sys.stderr))


def _common(flags: GlobalFlags) -> list[str]:
    """The flags that hold for all candidates and may change how they do a task."""
    values = {name: value for name, value in flags.values.items() if name != "cwd"}
    return [
        *flags.overrides,
        *([msgspec.json.encode(values).decode()] if values else []),
        *([] if flags.mcp else ["no_mcp"]),
    ]
