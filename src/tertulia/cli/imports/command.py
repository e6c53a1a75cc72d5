"""`tertulia import`: takes over what Codex, Claude Code, Cursor and VS Code know of models, MCP servers and agents."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.imports.claude_agents import read_agents
from tertulia.cli.imports.codex import read_codex
from tertulia.cli.imports.entries import Entry, Findings
from tertulia.cli.imports.servers import read_servers
from tertulia.cli.imports.writing import split_by_presence, write_entries
from tertulia.cli.output.terminal import TerminalOutput, json_line
from tertulia.mcp.config.project_server import masked_entry
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.settings import LoadedSettings

_MORE = """
\b
Examples:
  tertulia import
  tertulia import codex --yes
  tertulia import --project cursor
  tertulia import --json | jq .left_out

\b
Exit codes:
  0  shown, or written
  1  config.toml cannot be written
  2  usage, or there is nothing to read
"""
PROGRAMS = ("codex", "claude", "cursor", "vscode")


@click.command("import", epilog=_MORE)
@click.argument("programs", metavar="[PROGRAM]...", nargs=-1, type=click.Choice(PROGRAMS))
@click.option("project", "--project", is_flag=True, help="Read the files of this project as well as yours.")
@click.option("sure", "-y", "--yes", is_flag=True, help="Write it.")
@click.option("as_json", "--json", is_flag=True, help="One JSON object.")
@global_flags
@click.pass_obj
def command(flags: GlobalFlags, *, programs: Sequence[str], project: bool, sure: bool, as_json: bool) -> int:
    """Take over settings, MCP servers and agents from other programs.

    Shows what would be written into your config.toml, and what is left out and why; with --yes it is written, all of
    it or nothing. What your config.toml has already stays as it is, and nothing is started. The files of a project may
    be from other people: --project reads them too, and what it shows becomes yours when you say --yes.
    """
    loaded = flags.load()
    found = _read(programs or PROGRAMS, loaded, project=project)
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    if not found.files:
        which = ", ".join(programs or PROGRAMS)
        TerminalOutput(sys.stderr, loaded.environment.variables).line(f"There is no file to read of {which}.")
        return 2
    path = loaded.environment.config_file
    missing, present = split_by_presence(path, found.entries)
    if sure and missing:
        write_entries(path, missing)
    if as_json:
        sys.stdout.buffer.write(json_line(_fields(found, missing, present, path, written=sure)))
    else:
        _show(out, found, missing, present, path, written=sure)
    return 0


def _read(programs: Sequence[str], loaded: LoadedSettings, *, project: bool) -> Findings:
    found, home = Findings(), loaded.environment.user_home
    folders = [home, *([Path(loaded.settings.cwd or ".").absolute()] if project else [])]
    for folder in folders:
        if "codex" in programs:
            place = _codex_home(loaded.environment) if folder == home else folder / ".codex"
            read_codex(place / "config.toml", found, project=folder != home)
        if "claude" in programs:
            # A project's `.mcp.json` is read where it lies: see `tertulia mcp trust`.
            if folder == home:
                read_servers(folder / ".claude.json", "mcpServers", found)
            read_agents(folder / ".claude" / "agents", found)
        if "cursor" in programs:
            read_servers(folder / ".cursor" / "mcp.json", "mcpServers", found)
        if "vscode" in programs:
            place = folder / ".config" / "Code" / "User" if folder == home else folder / ".vscode"
            read_servers(place / "mcp.json", "servers", found)
    return found


def _codex_home(environment: Environment) -> Path:
    return Path(environment.variables.get("CODEX_HOME") or environment.user_home / ".codex")


# ---- what is shown


def _fields(
    found: Findings, missing: Sequence[Entry], present: Sequence[Entry], path: Path, *, written: bool
) -> dict[str, Any]:
    return {
        "config": str(path),
        "written": written and bool(missing),
        "files": found.files,
        "entries": [{"key": entry.title(), "value": _visible(entry), "source": entry.source} for entry in missing],
        "present": [{"key": entry.title(), "source": entry.source} for entry in present],
        "left_out": [part._asdict() for part in found.left_out],
    }


def _show(
    out: TerminalOutput,
    found: Findings,
    missing: Sequence[Entry],
    present: Sequence[Entry],
    path: Path,
    *,
    written: bool,
) -> None:
    for file in found.files:
        out.line(("read ", "dim"), file)
    if missing:
        out.line(("Written into " if written else "Would be written into ", "bold"), f"{path}:")
        for entry in missing:
            # Whole, and in ASCII: nothing in it can look like something else.
            out.line(f"  {entry.title()} ", (json.dumps(_visible(entry)), "dim"))
    if present:
        out.line(("There already, left as it is:", "bold"))
        for entry in present:
            out.line(f"  {entry.title()} ", (f"from {entry.source}", "dim"))
    if found.left_out:
        out.line(("Left out:", "bold"))
        for part in found.left_out:
            out.line(f"  {part.subject} ", (f"in {part.source}: {part.reason}", "dim"))
    if missing and not written:
        out.line("Nothing was written; `tertulia import --yes` writes it.")
    elif not missing:
        out.line("Nothing is to be written.")


def _visible(entry: Entry) -> Any:
    """Keys and passwords of servers and providers are hidden."""
    return masked_entry(entry.value) if entry.family in ("mcp_servers", "model_providers") else entry.value
