"""Runs the plan of `tertulia eval`: refuses what cannot work before anything is spent, and shows the progress."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TextIO

import msgspec

from tertulia.cli.evals.tables import write_failures, write_summary
from tertulia.cli.global_flags import GlobalFlags
from tertulia.cli.output.progress import ProgressBar
from tertulia.cli.output.terminal import TerminalOutput, json_line
from tertulia.cli.stop_signals import INTERRUPTED, on_stop_signal
from tertulia.errors import InvalidParamsError
from tertulia.evals.campaign import Campaign, CampaignEnd, CampaignPlan
from tertulia.evals.candidate import EvalCandidate, to_flags
from tertulia.evals.checking import Checker
from tertulia.evals.results import ResultsFile, RunRecord
from tertulia.evals.run import EvalRunner
from tertulia.evals.summary import summarise
from tertulia.evals.task import UNFILLED, is_unfilled
from tertulia.evals.workspace import sweep_places
from tertulia.events.clock import SystemClock
from tertulia.models.catalog import ModelPrices
from tertulia.protocol.items import NO_USAGE
from tertulia.sandbox.sandbox import Sandbox
from tertulia.session.members import require_model, require_sandbox
from tertulia.session.settings.settings import LoadedSettings, Settings, root_model


class EvalRequest(msgspec.Struct, frozen=True):
    """A command line of `tertulia eval`."""

    plan: CampaignPlan
    flags: GlobalFlags
    results: Path
    html_file: Path | None = None
    as_json: bool = False

    def load(self, candidate: EvalCandidate, cwd: Path) -> LoadedSettings:
        """The settings of a candidate, for a working directory."""
        flags = GlobalFlags()
        flags.mcp = self.flags.mcp
        flags.values = to_flags(candidate, self.flags.values)
        flags.overrides = [*self.flags.overrides, *candidate.overrides]
        return flags.load(cwd)

    def settings(self, candidate: EvalCandidate, cwd: Path) -> Settings:
        """The same, without where they came from."""
        return self.load(candidate, cwd).settings


async def run_suite(request: EvalRequest, stdout: TextIO, stderr: TextIO) -> int:
    """Do what is missing in the results, print the summary, and return the exit code."""
    plan, clock = request.plan, SystemClock()
    for task in plan.suite.tasks:
        if is_unfilled(task):
            raise InvalidParamsError(f"{task.check}: {UNFILLED}; fill it in, or leave the task out with --only")
    for candidate in plan.candidates:
        _check_candidate(request, candidate)
    sweep_places()
    loaded = request.load(plan.candidates[0], plan.suite.folder)
    variables = loaded.environment.variables
    out, notes = TerminalOutput(stdout, variables), TerminalOutput(stderr, variables)
    sandbox = Sandbox(tier=loaded.settings.sandbox_tier, clock=clock)
    with ResultsFile(request.results, plan.suite) as results:
        runner = EvalRunner(
            request.settings,
            Checker(sandbox, loaded),
            masked=(plan.suite.folder, request.results),
            variables=variables,
            clock=clock,
        )
        try:
            await sandbox.check()
            end = await _follow(Campaign(plan, runner, results, clock), notes)
        finally:
            await sandbox.close()
    _show(request, results.records, end, (out, notes))
    return {"done": 0, "budget": 1, "stopped": INTERRUPTED}[end.reason]


def _check_candidate(request: EvalRequest, candidate: EvalCandidate) -> None:
    """Refuse a candidate that cannot work, while nothing was run."""
    loaded = request.load(candidate, request.plan.suite.folder)
    settings = loaded.settings
    if settings.rights.sandbox == "danger_full_access":
        raise InvalidParamsError(
            f"{candidate.name}: a candidate with danger-full-access could read the checks; choose workspace-write"
        )
    if candidate.backend not in (None, "native"):
        return
    require_model(settings, loaded.environment)
    require_sandbox(settings)
    model = root_model(settings)
    priced = isinstance(model, str) and ModelPrices(settings.model_prices).cost(model, NO_USAGE) is not None
    if request.plan.budget.cost_usd is not None and not priced:
        raise InvalidParamsError(
            f"{candidate.name}: --max-cost needs the price of its model; set it in [model_prices], or use --max-tokens"
        )


async def _follow(campaign: Campaign, notes: TerminalOutput) -> CampaignEnd:
    stopped = asyncio.Event()
    if campaign.done:
        notes.line((f"{campaign.done} of {campaign.total} runs are there already", "dim"))
    with on_stop_signal(stopped.set), ProgressBar(notes, "eval") as bar:

        def show(record: RunRecord) -> None:
            if record.outcome != "passed":
                notes.rewrite()
                notes.line((f"{record.outcome:9}", "yellow"), f" {record.task}  ", (record.candidate, "dim"))
            bar(campaign.done, campaign.total)

        return await campaign.run(stopped, show)


def _show(
    request: EvalRequest,
    records: list[RunRecord],
    end: CampaignEnd,
    streams: tuple[TerminalOutput, TerminalOutput],
) -> None:
    out, notes = streams
    if request.as_json:
        for row in summarise(records):
            out.write(json_line(row).decode())
    elif records:
        write_summary(out, records)
        write_failures(out, records)
    if request.html_file is not None:
        # Imported here: few command lines want a page.
        from tertulia.evals.report.html import html_report

        request.html_file.write_text(html_report(records), encoding="utf-8")
    if end.reason != "done":
        why = "stopped" if end.reason == "stopped" else "the budget is used up"
        how = "the same command goes on" if end.reason == "stopped" else "a larger one goes on"
        notes.line((f"{why} after {end.done} of {end.total} runs: {how}", "yellow"))
    notes.line((f"results: {request.results}", "dim"))
