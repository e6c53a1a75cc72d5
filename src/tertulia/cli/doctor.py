"""`tertulia doctor`: what is installed, where each setting comes from, whether the sandbox holds. Shows no secret."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from msgspec.structs import asdict

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.mcp.status import definition_source, load_configured_servers, predicted_status
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.errors import InvalidParamsError, SandboxUnavailableError
from tertulia.events.clock import SystemClock
from tertulia.policy.narrowing import to_wire
from tertulia.sandbox.launcher.launched_process import MAY_REMAIN, Namespace, may_remain
from tertulia.sandbox.masks.guarded_paths import GuardedPaths
from tertulia.sandbox.runner import TierChoice, TierReport
from tertulia.sandbox.sandbox import Sandbox
from tertulia.session.mcp.configured_servers import ConfiguredServers
from tertulia.session.settings.project_file import find_project_files
from tertulia.session.settings.settings import LoadedSettings, Settings
from tertulia.session.settings.workspace import check_workspace, guarded_paths_of
from tertulia.version import __version__

_MORE = """
\b
Examples:
  tertulia doctor
  tertulia -C ~/project doctor -c limits.task_timeout_s=60
"""


@click.command("doctor", epilog=_MORE)
@global_flags
@click.pass_obj
def command(flags: GlobalFlags) -> int:
    """Show where each setting comes from, and what is wrong.

    Plain values are shown, those of tables are not: they may hold secrets. A configuration that cannot be read is
    exit code 2.
    """
    loaded = flags.load()
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    out.line(("Tertulia", "bold"), f" {__version__} · Python {platform.python_version()} · {platform.platform()}")
    _section("Places", _places(loaded), out)
    _sandbox(loaded, out)
    guarded = guarded_paths_of(loaded.settings, loaded.environment)
    _section("Masked: commands see these as empty", _masks(guarded), out)
    _section("Protected: commands can read these and not change them", _protected(guarded), out)
    servers = load_configured_servers(loaded)
    if servers.definitions or servers.unstarted:
        _section("MCP servers (none is started here)", _servers(loaded, servers), out)
    _section("Settings", _settings(loaded), out)
    _problems(loaded, servers, out)
    return 0


def _workspace_faults(loaded: LoadedSettings) -> list[str]:
    """Why no session would begin here, if none would."""
    try:
        check_workspace(loaded.settings, loaded.environment)
    except InvalidParamsError as error:
        return [error.message]
    return []


def _section(title: str, rows: Iterator[tuple[str, str, str]], out: TerminalOutput) -> None:
    out.line()
    out.line((title, "bold"))
    for name, value, source in rows:
        out.line(f"  {name:32} {value:24} ", (source, "dim" if source == "default" else "cyan"))


def _sandbox(loaded: LoadedSettings, out: TerminalOutput) -> None:
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
        return
    out.line(f"  {report.tier:32} ", ("works", "green"), f" {report.version}")
    out.line(f"  {'self-test':32} {len(report.attempts)} of {len(report.attempts)} attempts to get out were stopped")
    for note in notes:
        out.line(f"  {'chosen by auto':32} ", (note, "yellow"))
    for gap in report.not_covered:
        out.line(f"  {'not covered':32} ", (gap, "yellow"))
    for sentence in _outside(outside):
        if sentence not in report.not_covered:
            out.line(f"  {'programs outside it':32} {sentence}")


def _outside(namespace: Namespace) -> Iterator[str]:
    """What happens to programs that run outside the sandbox when this process is killed."""
    if namespace.kind:
        yield "a server or another agent ends with this process, however that ends: each has a process namespace"
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
    """By dotted name, in wire spelling: rights, limits and whatever is a single word or number."""
    rights = asdict(settings.rights())
    limits = {f"limits.{name}": value for name, value in to_wire("limits", rights["limits"]).items()}
    values = asdict(settings) | {name: to_wire(name, rights[name]) for name in ("approval_policy", "sandbox")}
    values |= {"storage_policy": to_wire("storage_policy", rights["storage_policy"])}
    return {name: str(value) for name, value in (values | limits).items() if _is_plain(value)}


def _is_plain(value: object) -> bool:
    return isinstance(value, str | bool | int | float)


def _servers(loaded: LoadedSettings, servers: ConfiguredServers) -> Iterator[tuple[str, str, str]]:
    for server in servers.definitions:
        trusted = ", trusted" if server.origin == "project" else ""
        yield server.name, f"{predicted_status(server, loaded)[0]}{trusted}", definition_source(server, loaded)
    for server in servers.unstarted:
        yield server.name, server.status, definition_source(server, loaded)


def _problems(loaded: LoadedSettings, servers: ConfiguredServers, out: TerminalOutput) -> None:
    out.line()
    warnings = [*loaded.warnings, *_workspace_faults(loaded), *servers.warnings]
    for warning in warnings:
        out.line(("warning", "yellow"), f" {warning}")
    statuses = [(server.name, *predicted_status(server, loaded)) for server in servers.definitions]
    statuses += [(server.name, server.status, server.error) for server in servers.unstarted]
    faults = [(name, status, error) for name, status, error in statuses if error is not None]
    for name, status, error in faults:
        out.line((status, "yellow"), f" MCP server {name}: {error}")
    if not warnings and not faults:
        out.line(("No problem was found.", "green"))
