"""`tertulia prompt`: everything that a model is sent first, where it comes from and what it costs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import click
import msgspec
from msgspec.structs import asdict, replace

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.output.tables import format_count, write_columns
from tertulia.cli.output.terminal import StyledText, TerminalOutput, json_line
from tertulia.errors import InvalidParamsError
from tertulia.events.journal import NoJournal
from tertulia.session.describe import PromptPart
from tertulia.session.session import Session
from tertulia.session.settings.conversation_fields import AgentFields
from tertulia.session.settings.settings import Settings

_MORE = """
\b
Examples:
  tertulia prompt --brief
  tertulia prompt --agent ada --archetype employee | less
  tertulia prompt --mcp --json | jq '.parts[] | select(.kind == "tool") | {name, tokens}'
"""
_HEAD = ("PART", "FROM", "TOKENS", "BEGINS")


class PromptListing(msgspec.Struct, frozen=True):
    """The parts of a prompt, and what was cut from it."""

    model: str
    parts: list[PromptPart]
    warnings: list[str]
    """What went wrong, and what was cut."""
    narrowed: list[str]
    unstarted: list[str]
    """MCP servers whose tools are not among the parts."""


@click.command("prompt", epilog=_MORE)
@click.option(
    "agent", "--agent", metavar="NAME", help="The prompt of this agent of config.toml, or of an identity of this name."
)
@click.option("--archetype", metavar="A", help="What kind of agent: repo (default), service or employee.")
@click.option("--brief", is_flag=True, help="Only the table.")
@click.option("--mcp", is_flag=True, help="Start the MCP servers, and list their tools too.")
@click.option("as_json", "--json", is_flag=True, help="One JSON object.")
@global_flags
@click.pass_obj
def command(
    flags: GlobalFlags, *, agent: str | None, archetype: str | None, brief: bool, mcp: bool, as_json: bool
) -> int:
    """Show what a model is sent first, and what each part costs.

    Instructions, messages (what AGENTS.md says among them) and tools of a new conversation, in their order. No model is
    contacted and nothing is stored. Tokens are estimates: a quarter of the bytes.
    """
    if archetype is not None and agent is None:
        raise InvalidParamsError("--archetype is a property of an agent; add --agent NAME")
    loaded = flags.load()
    identity: AgentFields | None = None if agent is None else {"name": agent, "archetype": archetype or "repo"}
    named = agent if archetype is None and agent in loaded.settings.agents else None
    prompt = asyncio.run(_collect_prompt(loaded.settings, named or identity, mcp=mcp))
    if as_json:
        sys.stdout.buffer.write(json_line({**asdict(prompt), "tokens": _sum(prompt.parts)}))
        return 0
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    if not brief:
        for part in prompt.parts:
            _write_out(part, out)
    _table(prompt, out)
    return 0


async def _collect_prompt(settings: Settings, agent: AgentFields | str | None, *, mcp: bool) -> PromptListing:
    asleep = [] if mcp else [*settings.mcp_servers, *(server.name for server in settings.project_servers)]
    shown = settings if mcp else replace(settings, mcp_servers={}, project_servers=())
    async with Session(shown, journal=NoJournal(), agent_servers=mcp) as session:
        conversation = session.root if agent is None else await session.open(agent=agent)
        details = conversation.details
        if not mcp:
            asleep += details.agent_servers
        return PromptListing(
            model=details.model,
            parts=details.prompt(),
            warnings=[*conversation.warnings, *details.project_warnings],
            narrowed=[cut.sentence for cut in (await conversation.context()).narrowed],
            unstarted=sorted(set(asleep)),
        )


def _write_out(part: PromptPart, out: TerminalOutput) -> None:
    out.line((f"── {part.name}", "bold"), (f" · {part.source} · {format_count(part.tokens, 'token')}", "dim"))
    out.line()
    out.line(part.text.rstrip())
    out.line()


def _table(prompt: PromptListing, out: TerminalOutput) -> None:
    rows: list[list[StyledText]] = [
        [(part.name, "bold"), part.source, f"{part.tokens:,}", (_begins(part.text), "dim")] for part in prompt.parts
    ]
    rows.append([("total", "bold"), prompt.model, (f"{_sum(prompt.parts):,}", "bold"), ""])
    write_columns(out, _HEAD, rows, right=frozenset({"TOKENS"}))
    out.line((_shares(prompt.parts), "dim"))
    for title, lines in (("warning", prompt.warnings), ("narrowed", prompt.narrowed)):
        for line in lines:
            out.line((title, "yellow"), f" {line}")
    if prompt.unstarted:
        names = ", ".join(prompt.unstarted)
        out.line(("not started", "yellow"), f" {names}: their tools are not listed (--mcp starts them)")


def _begins(text: str) -> str:
    # Of a tool its description, without the schema.
    return " ".join(text.partition("\n\n{")[0][:400].split()).lstrip("# ")[:100]


def _shares(parts: Sequence[PromptPart]) -> str:
    kinds = {"instructions": "instructions", "message": "messages"}
    counts = [f"{word} {_sum([part for part in parts if part.kind == kind]):,}" for kind, word in kinds.items()]
    tools = [part for part in parts if part.kind == "tool"]
    by_source = {part.source: _sum([other for other in tools if other.source == part.source]) for part in tools}
    groups = ", ".join(f"{source} {tokens:,}" for source, tokens in by_source.items())
    return ", ".join([*counts, f"tools {_sum(tools):,}"]) + (f" ({groups})" if groups else "")


def _sum(parts: Sequence[PromptPart]) -> int:
    return sum(part.tokens for part in parts)
