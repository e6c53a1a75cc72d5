"""Slash commands of an ACP session: a prompt that begins with one of these names is for us, not for the model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from tertulia.server.acp.session_options import choose_mode, choose_model, current_mode, mode_state
from tertulia.session.session import Session


class SlashCommand(msgspec.Struct, frozen=True):
    """One of them."""

    about: str
    run: Callable[[Session, str, Iterable[str]], Awaitable[str]]
    """With what was written behind its name, and the models that are known; what is answered."""
    hint: str | None = None
    """What may be written behind its name."""


def find_slash_command(text: str) -> tuple[SlashCommand, str] | None:
    """The command that a prompt is, and what is written behind it; None: it is for the model."""
    name, _, rest = text.strip().partition(" ")
    command = SLASH_COMMANDS.get(name[1:]) if name.startswith("/") else None
    return None if command is None else (command, rest.strip())


def available_commands() -> list[dict[str, Any]]:
    """As ACP lists them."""
    return [
        {"name": name, "description": command.about, **({"input": {"hint": command.hint}} if command.hint else {})}
        for name, command in SLASH_COMMANDS.items()
    ]


async def _help(session: Session, rest: str, models: Iterable[str]) -> str:
    return "\n".join(f"- `/{name}` {command.about}" for name, command in SLASH_COMMANDS.items())


async def _status(session: Session, rest: str, models: Iterable[str]) -> str:
    info, context = session.info, await session.root.context()
    counts = session.metrics().session
    rows = {
        "session": info.session_id,
        "model": info.model,
        "mode": current_mode(session),
        "approvals": context.policy["approval"],
        "storage": context.policy["storage"],
        "prompt": f"about {context.prompt_tokens:,} tokens",
        "spent": f"{counts.usage.total_tokens:,} tokens in {counts.model_requests:,} requests",
    }
    return "\n".join(f"- {name}: {value}" for name, value in rows.items())


async def _compact(session: Session, rest: str, models: Iterable[str]) -> str:
    done = await session.root.compact()
    if not done.compacted:
        return f"Nothing was summarised: {done.reason or 'there is nothing older'}."
    return f"The older part was summarised: {done.before_tokens:,} tokens are {done.after_tokens:,} now."


async def _model(session: Session, rest: str, models: Iterable[str]) -> str:
    if rest:
        await choose_model(session, rest)
        return f"{session.info.model} answers from now on."
    others = [f"- `{name}`" for name in models if name != session.info.model]
    return "\n".join([f"{session.info.model} answers. `/model provider/model` chooses another.", *others])


async def _mode(session: Session, rest: str, models: Iterable[str]) -> str:
    if rest:
        await choose_mode(session, rest)
    listed = [f"- `{mode['id']}` {mode['description']}" for mode in mode_state(session)["availableModes"]]
    return "\n".join([f"The mode is {current_mode(session)}.", *([] if rest else listed)])


async def _mcp(session: Session, rest: str, models: Iterable[str]) -> str:
    await session.parts.servers.settle()
    rows = [
        f"- {server['name']}: {server['status']}, {server['tools']} tools"
        + (f" ({server['error']})" if server.get("error") else "")
        for server in session.info.mcp
    ]
    return "\n".join(rows) or "There is no MCP server."


async def _tools(session: Session, rest: str, models: Iterable[str]) -> str:
    await session.parts.servers.settle()
    return "\n".join(f"- `{tool.name}` ({tool.source})" for tool in session.root.tools())


SLASH_COMMANDS: dict[str, SlashCommand] = {
    "help": SlashCommand("lists these commands", _help),
    "status": SlashCommand("shows the model, the mode, and what was spent", _status),
    "compact": SlashCommand("has the model summarise the older part of this conversation", _compact),
    "model": SlashCommand("shows which model answers, or chooses another", _model, "provider/model"),
    "mode": SlashCommand("shows how far commands may go, or chooses", _mode, "one of the modes that /mode lists"),
    "mcp": SlashCommand("shows the MCP servers and how they are", _mcp),
    "tools": SlashCommand("lists the tools that the model is offered", _tools),
}
"""In the order in which an editor shows them."""
