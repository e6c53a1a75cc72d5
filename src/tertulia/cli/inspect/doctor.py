"""`tertulia doctor`: where each setting comes from, and whether commands, the model and the MCP servers would work.

Shows no secret.
"""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import click
from msgspec.structs import asdict

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.mcp.status import (
    ProbeResult,
    definition_source,
    load_configured_servers,
    probe_servers,
    server_redactor,
)
from tertulia.cli.models.command import answering_model, model_problem
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.context.project_instructions import read_project_instructions
from tertulia.errors import InvalidParamsError, SandboxUnavailableError
from tertulia.events.clock import SystemClock
from tertulia.policy.rights import to_wire
from tertulia.protocol.network.access import access_from_table
from tertulia.protocol.tool_events import server_status_text
from tertulia.sandbox.availability import install_command
from tertulia.sandbox.masks.guarded_paths import GuardedPaths
from tertulia.sandbox.runner import TierChoice, TierReport
from tertulia.sandbox.sandbox import Sandbox
from tertulia.sandbox.tier import MAY_REMAIN, Namespace, may_remain
from tertulia.session.mcp.configured_servers import ConfiguredServers
from tertulia.session.settings.project_file import find_project_files
from tertulia.session.settings.settings import LoadedSettings, Settings, configured_agents
from tertulia.session.settings.workspace import check_workspace, guarded_paths_of
from tertulia.version import __version__

_MORE = """
\b
Examples:
  tertulia doctor
  tertulia -C ~/project doctor -c limits.task_timeout_s=60
  tertulia doctor --report

\b
Exit codes:
  0  everything that is configured would work
  1  commands would be refused, no model can answer, an MCP server fails, or no session may begin here
  2  usage or configuration
"""


class _Problem(NamedTuple):
    """Something that would not work, and what to do about it."""

    what: str
    advice: str


@click.command("doctor", epilog=_MORE)
@click.option("--report", is_flag=True, help="Show system and sandbox alone, to be sent: no settings, no secrets.")
@global_flags
@click.pass_obj
def command(flags: GlobalFlags, *, report: bool) -> int:
    """Show where each setting comes from, and what is wrong.

    The sandbox is tried out, and MCP servers that may be started are started and stopped again. Plain values are
    shown, those of tables are not: they may hold secrets.
    """
    loaded = flags.load()
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    out.line(("Tertulia", "bold"), f" {__version__} · Python {platform.python_version()} · {platform.platform()}")
    if report:
        return 1 if _sandbox_problems(loaded, out, attempts=True) else 0
    _section("Places", _places(loaded), out)
    if rows := list(answering_model(loaded)):
        _section("Model", iter(rows), out)
    problems = [*_workspace_problems(loaded), *_model_problems(loaded), *_sandbox_problems(loaded, out)]
    problems += _checkpoint_problems(loaded)
    guarded = guarded_paths_of(loaded.settings, loaded.environment)
    _section("Masked: commands see these as empty", _masks(guarded), out)
    _section("Protected: commands can read these and not change them", _protected(guarded), out)
    servers = load_configured_servers(loaded)
    results = _start_servers(loaded, servers)
    if servers.definitions or servers.unstarted:
        _section("MCP servers", _servers(loaded, servers, results), out)
    problems += [*_server_problems(loaded, servers, results), *_agent_problems(loaded)]
    _section("Settings", _settings(loaded), out)
    project = _project_warnings(loaded.settings, guarded)
    _conclude(problems, [*loaded.warnings, *project, *servers.warnings, *_unstarted(servers)], out)
    return 1 if problems else 0


def _workspace_problems(loaded: LoadedSettings) -> Iterator[_Problem]:
    try:
        check_workspace(loaded.settings, loaded.environment)
    except InvalidParamsError as error:
        yield _Problem(f"no session may begin here: {error.message}", "work in another directory: `-C DIRECTORY`")


def _model_problems(loaded: LoadedSettings) -> Iterator[_Problem]:
    why_not = model_problem(loaded)
    if why_not is not None:
        yield _Problem(
            f"no model can answer: {why_not}",
            "set a key or keep one with `tertulia login PROVIDER`, name a model (`-m provider/model`), or `tertulia "
            "models pull smollm2`; `tertulia models ls` shows what there is",
        )


def _checkpoint_problems(loaded: LoadedSettings) -> Iterator[_Problem]:
    """That files are not recorded, where they should be."""
    from tertulia.session.settings.checkpoint_table import checkpoints_from_wire, why_no_checkpoints

    options = checkpoints_from_wire(loaded.settings.checkpoints)
    reason = why_no_checkpoints(options, loaded.environment.variables)
    if options.enabled and reason is not None:
        yield _Problem(f"what tasks do to files cannot be undone: {reason}", "install git, or checkpoints = false")


def _agent_problems(loaded: LoadedSettings) -> Iterator[_Problem]:
    """Agents of the settings that no conversation could be opened as."""
    agents, chosen = configured_agents(loaded.settings), loaded.settings.agent
    advice = "mend [agents.NAME] in your config.toml; `tertulia agents ls` shows what there is"
    try:
        if chosen is not None:
            agents.find(chosen)
    except InvalidParamsError as error:
        yield _Problem(f"no session can begin: {error.message}", advice)
    for agent in agents:
        try:
            agent.open_spec()
        except InvalidParamsError as error:
            yield _Problem(f"the agent {agent.name} cannot be opened: {error.message}", advice)


def _project_warnings(settings: Settings, guarded: GuardedPaths) -> tuple[str, ...]:
    """What of the project's AGENTS.md conversations are not told."""
    if not settings.project_instructions:
        return ()
    return read_project_instructions(settings.cwd or ".", [mask.path for mask in guarded.masks]).warnings


def _section(title: str, rows: Iterator[tuple[str, str, str]], out: TerminalOutput) -> None:
    out.line()
    out.line((title, "bold"))
    for name, value, source in rows:
        out.line(f"  {name:32} {value:24} ", (source, "dim" if source == "default" else "cyan"))


def _sandbox_problems(loaded: LoadedSettings, out: TerminalOutput, *, attempts: bool = False) -> list[_Problem]:
    """Write which sandbox tier works here, what its self-test found, and what it does not cover."""
    out.line()
    out.line(("Sandbox", "bold"))
    tier = loaded.settings.sandbox_tier
    notes: list[str] = []
    try:
        report, outside = asyncio.run(_try_out(tier, notes.append))
    except SandboxUnavailableError as error:
        out.line(f"  {tier:32} ", ("unavailable", "red"), f" {error.message}")
        out.line(f"  {'':32} commands are refused; they are not run without it")
        if loaded.settings.rights.sandbox == "danger_full_access":
            return []
        return [_Problem(f"commands would be refused: {error.message}", _sandbox_advice(tier))]
    out.line(f"  {report.tier:32} ", ("works", "green"), f" {report.version}")
    out.line(f"  {'self-test':32} {len(report.attempts)} of {len(report.attempts)} attempts to get out were stopped")
    for attempt in report.attempts if attempts else ():
        out.line(f"  {'stopped':32} {attempt}")
    for note in notes:
        out.line(f"  {'chosen by auto':32} ", (note, "yellow"))
    for gap in report.not_covered:
        out.line(f"  {'not covered':32} ", (gap, "yellow"))
    for sentence in _outside(outside) if sys.platform == "linux" else ():
        if sentence not in report.not_covered:
            out.line(f"  {'programs outside it':32} {sentence}")
    return []


def _sandbox_advice(tier: TierChoice) -> str:
    if sys.platform == "darwin":
        return "send what `tertulia doctor --report` says; until then `-s danger-full-access` runs them unconfined"
    if sys.platform == "win32":
        return "install WSL (`wsl --install`) and run Tertulia there"
    if tier == "auto":
        return f"{install_command()}; `tertulia sandbox -- true` tries it"
    return f'let Tertulia choose (`sandbox_tier = "auto"`), or {install_command()}'


def _outside(namespace: Namespace) -> Iterator[str]:
    """What happens to programs that run outside the sandbox when this process is killed."""
    if namespace.kind:
        yield "a server or an executor ends with this process, however that ends: each has a process namespace"
    if namespace.kind == "users":
        yield "it is a user namespace too, in which sudo does not work; `pid_namespace = false` for a server avoids it"
    yield from may_remain(namespace)
    if namespace.kind:
        yield f"with danger-full-access or `pid_namespace = false`: {MAY_REMAIN}"


async def _try_out(tier: TierChoice, note: Callable[[str], object]) -> tuple[TierReport, Namespace]:
    sandbox = Sandbox(tier=tier, clock=SystemClock(), on_lesser=note)
    try:
        return await sandbox.check(), await sandbox.outside()
    finally:
        await sandbox.close()


def _places(loaded: LoadedSettings) -> Iterator[tuple[str, str, str]]:
    environment = loaded.environment
    yield "data", _presence(environment.home), str(environment.home)
    yield "user's file", _presence(environment.config_file), str(environment.config_file)
    for path in find_project_files(Path(loaded.settings.cwd or "."), environment.user_home):
        yield "project's file", _presence(path), str(path)


def _masks(guarded: GuardedPaths) -> Iterator[tuple[str, str, str]]:
    there = [mask for mask in guarded.masks if os.path.lexists(mask.path)]
    for mask in there:
        yield mask.spelled, mask.holds, "always" if mask.ours else "default" if mask.usual else "masks.add"
    yield f"and {len(guarded.masks) - len(there)} places", "that are not there", "default"


def _protected(guarded: GuardedPaths) -> Iterator[tuple[str, str, str]]:
    there = [path for path in guarded.protected if os.path.lexists(path.path)]
    for path in there:
        yield path.path, path.reason, "default"
    yield f"and {len(guarded.protected) - len(there)} places", "that are not there", "default"


def _presence(path: Path) -> str:
    return "found" if path.exists() else "not there"


def _settings(loaded: LoadedSettings) -> Iterator[tuple[str, str, str]]:
    plain = _plain_values(loaded.settings)
    for name, source in loaded.provenance.items():
        yield name, plain.get(name, ""), source


def _plain_values(settings: Settings) -> dict[str, str]:
    """By dotted name, in wire spelling: rights, limits, the budget, places of proxies, and whatever is a
    single word or number."""
    rights = asdict(settings.rights)
    limits = {f"limits.{name}": value for name, value in to_wire("limits", rights["limits"]).items()}
    for name, proxy in access_from_table(settings.proxy or {}).proxies():
        limits[f"proxy.{name}"] = proxy.place
    limits |= {f"budget.{name}": value for name, value in (settings.budget or {}).items()}
    values = asdict(settings) | {name: to_wire(name, rights[name]) for name in ("approval_policy", "sandbox")}
    values |= {"storage_policy": to_wire("storage_policy", rights["storage_policy"])}
    return {name: str(value) for name, value in (values | limits).items() if _is_plain(value)}


def _is_plain(value: object) -> bool:
    return isinstance(value, str | bool | int | float)


def _start_servers(loaded: LoadedSettings, servers: ConfiguredServers) -> dict[str, ProbeResult]:
    """Those that may be, at once; each is stopped again. None of a project that is not trusted."""
    if not servers.definitions:
        return {}
    notes = TerminalOutput(sys.stderr, loaded.environment.variables)
    results = asyncio.run(probe_servers(servers.definitions, loaded, server_redactor(loaded, servers), notes))
    return {result.name: result for result in results}


def _servers(
    loaded: LoadedSettings, servers: ConfiguredServers, results: Mapping[str, ProbeResult]
) -> Iterator[tuple[str, str, str]]:
    for server in servers.definitions:
        trusted = ", trusted" if server.origin == "project" else ""
        yield server.name, f"{results[server.name].status}{trusted}", definition_source(server, loaded)
    for server in servers.unstarted:
        yield server.name, server.status, definition_source(server, loaded)


def _server_problems(
    loaded: LoadedSettings, servers: ConfiguredServers, results: Mapping[str, ProbeResult]
) -> Iterator[_Problem]:
    for server in servers.definitions:
        result = results[server.name]
        if result.status != "ready":
            yield _Problem(
                f"the MCP server {server.name} fails: {result.error or result.status}",
                f"mend its table in {definition_source(server, loaded)}, or set `enabled = false` there; "
                f"`tertulia mcp test {server.name}` tries it",
            )
    for server in servers.unstarted:
        if server.status == "failed":
            source = definition_source(server, loaded)
            yield _Problem(f"the MCP server {server.name} fails: {server.error}", f"mend its table in {source}")


def _unstarted(servers: ConfiguredServers) -> Iterator[str]:
    """Servers that are there and must not be started, though they are not switched off."""
    for server in servers.unstarted:
        if server.error is not None and server.status != "failed":
            yield server_status_text(server.name, server.status, server.error)


def _conclude(problems: Sequence[_Problem], warnings: Sequence[str], out: TerminalOutput) -> None:
    """End with what to do, or with the truth that there is nothing."""
    out.line()
    for warning in warnings:
        out.line(("warning", "yellow"), f" {warning}")
    for problem in problems:
        out.line(("problem", "red"), f" {problem.what}")
    if problems:
        out.line()
        out.line(("What to do", "bold"))
        for problem in problems:
            out.line(f"  {problem.advice}")
    elif not warnings:
        out.line(("No problem was found.", "green"))
