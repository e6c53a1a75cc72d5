"""`tertulia doctor`: what is installed, which files were read, and where each setting comes from. Shows no secret."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from msgspec.structs import asdict

from tertulia.apps.global_flags import Given, global_flags
from tertulia.apps.terminal import Terminal
from tertulia.policy.narrowing import to_wire
from tertulia.session.project_file import find_project_files
from tertulia.session.settings import Loaded, Settings
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
def command(given: Given) -> int:
    """Show where each setting comes from, and what is wrong.

    Plain values are shown, those of tables are not: they may hold secrets. A configuration that cannot be read is
    exit code 2.
    """
    loaded = given.load()
    out = Terminal(sys.stdout, loaded.environment.variables)
    out.line(("Tertulia", "bold"), f" {__version__} · Python {platform.python_version()} · {platform.platform()}")
    for title, rows in (("Places", _places(loaded)), ("Settings", _settings(loaded))):
        out.line()
        out.line((title, "bold"))
        for name, value, source in rows:
            out.line(f"  {name:32} {value:24} ", (source, "dim" if source == "default" else "cyan"))
    _complaints(loaded, out)
    return 0


def _places(loaded: Loaded) -> Iterator[tuple[str, str, str]]:
    environment = loaded.environment
    yield "data", _presence(environment.home), str(environment.home)
    yield "user's file", _presence(environment.config_file), str(environment.config_file)
    for path in find_project_files(Path(loaded.settings.cwd or "."), environment.user_home):
        yield "project's file", _presence(path), str(path)


def _presence(path: Path) -> str:
    return "found" if path.exists() else "not there"


def _settings(loaded: Loaded) -> Iterator[tuple[str, str, str]]:
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


def _complaints(loaded: Loaded, out: Terminal) -> None:
    out.line()
    for warning in loaded.warnings:
        out.line(("warning", "yellow"), f" {warning}")
    for name, path in loaded.untrusted_servers.items():
        out.line(("untrusted", "yellow"), f" MCP server {name}, defined by {path}, is not started")
    if not loaded.warnings and not loaded.untrusted_servers:
        out.line(("Nothing to complain about.", "green"))
