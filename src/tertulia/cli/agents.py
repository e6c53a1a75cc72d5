"""`tertulia agents`: lists the agents that are set up in config.toml."""

from __future__ import annotations

import sys

import click
import msgspec

from tertulia.cli.global_flags import GlobalFlags, global_flags, verb_group
from tertulia.cli.output.tables import write_columns
from tertulia.cli.output.terminal import StyledText, TerminalOutput, json_line
from tertulia.session.settings.agent_table import ConfiguredAgent
from tertulia.session.settings.settings import LoadedSettings, configured_agents

_MORE = """
\b
Examples:
  tertulia agents ls
  tertulia exec --agent reviewer "Review the last commit"
  tertulia prompt --agent reviewer

\b
An agent is a table of config.toml:
  [agents.reviewer]
  description = "Reviews code"
  instructions = "You review code. Be brief."
  sandbox = "read-only"
"""
_MORE_LS = """
\b
Examples:
  tertulia agents ls
  tertulia agents ls --json
"""


class AgentListing(msgspec.Struct, frozen=True):
    """One agent, as it is listed."""

    name: str
    description: str
    model: str | None
    """The model that it names; None: it has the session's."""
    backend: str
    source: str
    """The file or flag that defines it."""


command = verb_group("agents", "List the agents that are set up in config.toml, to open conversations as.", _MORE)


@command.command("ls", epilog=_MORE_LS)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@global_flags
@click.pass_obj
def ls(flags: GlobalFlags, *, as_json: bool) -> int:
    """Show name, description, model and origin of each agent."""
    loaded = flags.load()
    found = [_listing(agent, loaded) for agent in configured_agents(loaded.settings)]
    if as_json:
        click.echo(json_line(found), nl=False)
        return 0
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    if not found:
        out.line(f"No agent is set up; define one as [agents.NAME] in {loaded.environment.config_file}")
        return 0
    rows: list[list[StyledText]] = [
        [(agent.name, "bold"), agent.description or "-", agent.model or "-", (agent.source, "dim")] for agent in found
    ]
    write_columns(out, ("NAME", "DESCRIPTION", "MODEL", "DEFINED IN"), rows)
    return 0


@command.command("test", hidden=True, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1)
def moved(words: tuple[str, ...]) -> int:
    """Say where trying out other programs has gone."""
    raise click.UsageError(f"other programs are executors; try `{' '.join(['tertulia executors test', *words])}`")


def _listing(agent: ConfiguredAgent, loaded: LoadedSettings) -> AgentListing:
    model, backend = agent.spec.model, agent.spec.backend
    sources = [source for name, source in loaded.provenance.items() if f"{name}.".startswith(f"agents.{agent.name}.")]
    return AgentListing(
        agent.name,
        agent.description,
        model if isinstance(model, str) else None,
        backend if isinstance(backend, str) else "native",
        ", ".join(dict.fromkeys(sources)),
    )
