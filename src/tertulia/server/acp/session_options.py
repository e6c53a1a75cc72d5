"""What a person can choose in an ACP session: mode, model, and slash commands.

A prompt that begins with the name of a slash command is carried out here, and the model does not see it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.protocol.conversation_fields import SANDBOX_MODES, SandboxMode, sandbox_from_wire, sandbox_to_wire
from tertulia.session.session import Session
from tertulia.view.undo_text import diff_lines, read_diff, read_undo, undo_lines

_BACKTICKS = re.compile("`+")
_MODES: dict[SandboxMode, tuple[str, str]] = {
    "read_only": ("Read only", "Reads files; changes nothing and reaches no network without being allowed to."),
    "workspace_write": ("Workspace", "Changes files of the workspace; anything else has to be allowed."),
    "danger_full_access": ("Full access", "No sandbox: commands may do whatever you may."),
}


def current_mode(session: Session) -> str:
    """The mode that the root works in."""
    return sandbox_to_wire(session.root.details.rights.sandbox)


def mode_state(session: Session) -> dict[str, Any]:
    """The modes that the user's settings allow, and the current one."""
    most = SANDBOX_MODES.index(session.root.details.ceiling.sandbox)
    listed = [
        {"id": sandbox_to_wire(mode), "name": _MODES[mode][0], "description": _MODES[mode][1]}
        for mode in SANDBOX_MODES[: most + 1]
    ]
    return {"currentModeId": current_mode(session), "availableModes": listed}


def config_options(session: Session, models: Iterable[str]) -> list[dict[str, Any]]:
    """Modes and models, in the form that newer editors read."""
    state, model = mode_state(session), session.info.model
    named = [{"value": name, "name": name} for name in dict.fromkeys((model, *models))]
    return [
        {
            "id": "mode",
            "name": "Mode",
            "category": "mode",
            "type": "select",
            "currentValue": state["currentModeId"],
            "options": [
                {"value": mode["id"], "name": mode["name"], "description": mode["description"]}
                for mode in state["availableModes"]
            ],
        },
        {
            "id": "model",
            "name": "Model",
            "category": "model",
            "type": "select",
            "currentValue": model,
            "options": named,
        },
    ]


async def choose_mode(session: Session, mode: str) -> None:
    """Set the mode, from the next request to the model on. InvalidParams for one that is not allowed."""
    allowed = [entry["id"] for entry in mode_state(session)["availableModes"]]
    if mode not in allowed:
        raise InvalidParamsError(
            f"the mode must be one of {', '.join(allowed)}, not {mode[:64]!r}; your settings say so"
        )
    await session.root.set_context(sandbox=sandbox_from_wire(mode))


async def choose_model(session: Session, model: str) -> None:
    """Set the model, from the next request on. InvalidParams for one that is not known."""
    await session.root.set_context(model=model)


class SlashCommand(msgspec.Struct, frozen=True):
    """A command that a prompt can begin with."""

    about: str
    run: Callable[[Session, str, Iterable[str]], Awaitable[str]]
    """Called with the text after its name, and the known models; returns the answer."""
    hint: str | None = None
    """What may be written behind its name."""


def find_slash_command(text: str) -> tuple[SlashCommand, str] | None:
    """The command that a prompt is, and what is written behind it; None: it is for the model."""
    name, _, rest = text.strip().partition(" ")
    command = SLASH_COMMANDS.get(name[1:]) if name.startswith("/") else None
    return None if command is None else (command, rest.strip())


def available_commands() -> list[dict[str, Any]]:
    """The slash commands in the form of ACP."""
    return [
        {"name": name, "description": command.about, **({"input": {"hint": command.hint}} if command.hint else {})}
        for name, command in SLASH_COMMANDS.items()
    ]


async def _help(session: Session, rest: str, models: Iterable[str]) -> str:
    return "\n".join(f"- `/{name}` {command.about}" for name, command in SLASH_COMMANDS.items())


async def _status(session: Session, rest: str, models: Iterable[str]) -> str:
    info, context = session.info, await session.root.context()
    counts = (await session.metrics()).session
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
    rows = [
        f"- {server['name']}: {server['status']}, {server['tools']} tools"
        + (f" ({server['error']})" if server.get("error") else "")
        for server in await session.mcp.status()
    ]
    return "\n".join(rows) or "There is no MCP server."


async def _undo(session: Session, rest: str, models: Iterable[str]) -> str:
    words = read_undo(rest)
    shown = await session.root.undo(words.to, paths=words.paths or None, dry_run=not words.yes, force=words.force)
    return _listed(undo_lines(shown, words, rest))


async def _diff(session: Session, rest: str, models: Iterable[str]) -> str:
    wanted = read_diff(rest)
    shown = await session.checkpoints.diff(wanted["id"], conversation=session.root.id, to_now=wanted["to_now"])
    *text, about = diff_lines(shown)
    # Longer than any in the files, which would end it.
    fence = "`" * max(3, 1 + max((len(run) for line in text for run in _BACKTICKS.findall(line)), default=0))
    return "\n".join([f"{fence}diff", *text, fence, about])


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


async def _tools(session: Session, rest: str, models: Iterable[str]) -> str:
    await session.mcp.status()
    return "\n".join(f"- `{tool.name}` ({tool.source})" for tool in session.root.tools())


SLASH_COMMANDS: dict[str, SlashCommand] = {
    "help": SlashCommand("lists these commands", _help),
    "status": SlashCommand("shows the model, the mode, and what was spent", _status),
    "compact": SlashCommand("has the model summarise the older part of this conversation", _compact),
    "model": SlashCommand("shows which model answers, or chooses another", _model, "provider/model"),
    "mode": SlashCommand("shows how far commands may go, or chooses", _mode, "one of the modes that /mode lists"),
    "mcp": SlashCommand("shows the MCP servers and how they are", _mcp),
    "tools": SlashCommand("lists the tools that the model is offered", _tools),
    "undo": SlashCommand("shows what would take back what the last message did to files; `yes` does it", _undo, "yes"),
    "diff": SlashCommand("shows what the last message did to files", _diff),
}
"""In the order in which an editor shows them."""
