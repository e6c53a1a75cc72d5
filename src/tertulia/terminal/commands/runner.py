"""What each slash command does. The names and their help are in `command_list.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.name_hints import word_hint
from tertulia.terminal.actions import Actions
from tertulia.terminal.approvals.grants import GrantsScreen
from tertulia.terminal.commands import pages
from tertulia.terminal.commands.command_list import find_command
from tertulia.terminal.commands.stored import find_stored, pick_session, replay_session, resume_session, show_prompt
from tertulia.terminal.commands.transcript_text import transcript_text
from tertulia.terminal.conv_command import run_conv
from tertulia.terminal.device.clipboard import copy_text
from tertulia.terminal.device.external_editor import print_to_scrollback
from tertulia.terminal.device.own_program import program_output
from tertulia.terminal.looks.themes import THEMES, use_theme
from tertulia.terminal.person_actions import PersonActions
from tertulia.terminal.scene import Scene
from tertulia.terminal.undo_command import run_diff, run_undo
from tertulia.view.cells import AssistantCell

_SANDBOXES = ("read-only", "workspace-write", "danger-full-access")


class CommandContext(msgspec.Struct, frozen=True):
    """The parts of the application that a command uses."""

    scene: Scene
    actions: Actions
    person: PersonActions
    quit: Callable[[], None]
    leave_for: Callable[[str], None]
    """Closes this session and goes on with a stored one."""

    @property
    def seen(self) -> ConversationId:
        """The seen conversation; InvalidParams while the session starts."""
        if self.scene.seen is None:
            raise InvalidParamsError("the session is still starting; try again when it stands")
        return self.scene.seen

    async def call(self, name: str, **params: Any) -> Any:
        """Run an operation of the session."""
        return await self.actions.port.call(name, **params)


async def run_command(context: CommandContext, name: str, rest: str) -> None:
    """Run a slash command.

    Args:
        context: What it works with.
        name: The name, without the slash.
        rest: What was typed behind it.

    Raises:
        TertuliaError: There is no such command, or it was refused.
    """
    command = find_command(name)
    context.scene.say("")
    await RUNNERS[command.name](context, rest.strip())


# ── conversations ────────────────────────────────────────────────────────────────────────────────────────────


async def _new(context: CommandContext, rest: str) -> None:
    await context.actions.open(context.seen, rest or None)


async def _go(context: CommandContext, rest: str) -> None:
    scene = context.scene
    if not rest:
        scene.show_page(pages.palette_page(scene.board, only_conversations=True))
        return
    views = [view for view in scene.board.tree() if not view.closed]
    names = {scene.name(view.id): view.id for view in reversed(views)}
    exact = [view.id for view in views if view.id == rest] or [id for name, id in names.items() if name == rest]
    starting = [id for name, id in names.items() if name.casefold().startswith(rest.casefold())]
    found = exact or starting
    if len(found) != 1:
        hint = word_hint(rest, names) if not found else f": {', '.join(map(scene.name, found))}"
        raise InvalidParamsError(f"{len(found) or 'no'} conversations are called {rest[:40]!r}{hint}")
    scene.see(found[0])


async def _fork(context: CommandContext, rest: str) -> None:
    await context.actions.fork(context.seen)


async def _compact(context: CommandContext, rest: str) -> None:
    answer = await context.call("conversation/compact", conversation_id=context.seen)
    if not answer["compacted"]:
        context.scene.say(f"nothing was replaced: {answer.get('reason') or 'there is nothing to replace'}")


async def _model(context: CommandContext, rest: str) -> None:
    if not rest:
        view = context.scene.view
        context.scene.say(f"the model is {view.model if view else context.scene.board.model}; /model NAME changes it")
        return
    await context.call("conversation/set_context", conversation_id=context.seen, model=rest)
    context.scene.say(f"{rest} answers from the next request on")


# ── what is known of it ──────────────────────────────────────────────────────────────────────────────────────


async def _mcp(context: CommandContext, rest: str) -> None:
    if rest not in ("", "refresh"):
        raise InvalidParamsError(f"/mcp takes nothing or refresh, not {rest[:40]!r}")
    answer = await (context.call("mcp/refresh") if rest else context.call("mcp/status"))
    rows: list[tuple[str, object]] = []
    for server in answer["servers"]:
        hidden = ("name", "users", "withheld")
        parts = [f"{key} {value}" for key, value in server.items() if key not in hidden and value is not None]
        parts += [f"withheld {tool['tool']}: {tool['because']}" for tool in server.get("withheld", ())]
        rows.append((str(server.get("name")), ", ".join(parts)))
    context.scene.panes.side.show_servers(answer["servers"])
    context.scene.show_page(pages.table_page("mcp", "MCP servers", rows or [("none", "is set up; docs/mcp.md")]))


async def _tools(context: CommandContext, rest: str) -> None:
    answer = await context.call("conversation/tools", conversation_id=context.seen)
    rows = [(str(tool["name"]), str(tool.get("description", "")).split("\n")[0]) for tool in answer["tools"]]
    title = f"Tools of {context.scene.name(context.seen)}"
    context.scene.show_page(pages.table_page("tools", title, rows or [("none", "")]))


async def _approvals(context: CommandContext, rest: str) -> None:
    screen = GrantsScreen(context.scene.board, clock=context.scene.clock)
    answer = await context.call("approval/grants")
    await context.scene.app.push_screen(screen)
    screen.show(answer["grants"])


async def _why(context: CommandContext, rest: str) -> None:
    context.scene.show_side()
    await context.actions.explain(rest or None)


async def _sandbox(context: CommandContext, rest: str) -> None:
    if not rest:
        info = await context.call("session/info")
        tier = info.get("sandbox_tier") or "nothing: commands are refused"
        context.scene.say(f"commands run in {info['policy']['sandbox']}, confined by {tier}")
        return
    if rest not in _SANDBOXES:
        raise InvalidParamsError(f"/sandbox takes {', '.join(_SANDBOXES)}{word_hint(rest, _SANDBOXES)}")
    await context.call("conversation/set_context", conversation_id=context.seen, sandbox=rest)
    await context.actions.describe()


async def _status(context: CommandContext, rest: str) -> None:
    info = await context.call("session/info")
    numbers = await context.call("metrics/get", conversation_id=context.seen)
    rows = pages.status_rows(info, context.scene.board, numbers.get("budget"))
    context.scene.show_page(pages.table_page("status", "Session", rows))


async def _canvas(context: CommandContext, rest: str) -> None:
    answer = await context.call("canvas/list")
    rows = [
        (context.scene.name(ConversationId(str(canvas["conversation_id"]))), str(canvas.get("title") or "untitled"))
        for canvas in answer["canvases"]
    ]
    context.scene.show_page(pages.table_page("canvas", "Canvases", rows or [("none", "was drawn in this session")]))


# ── the screen ───────────────────────────────────────────────────────────────────────────────────────────────


async def _export(context: CommandContext, rest: str) -> None:
    view = context.scene.view
    text = "" if view is None else f"{transcript_text(view)}\n"
    path = await asyncio.to_thread(_write_new, rest or f"tertulia-{context.seen[:8]}.md", text)
    context.scene.say(f"written to {path}")


def _write_new(name: str, text: str) -> Path:
    """Write a file that does not exist yet; returns its full path."""
    path = Path(name).expanduser().absolute()
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InvalidParamsError(f"{path} could not be written: {error.strerror}; name another file") from None
    return path


async def _copy(context: CommandContext, rest: str) -> None:
    view = context.scene.view
    if rest == "all" and view is not None:
        print_to_scrollback(context.scene.app, transcript_text(view))
        return
    answers = [] if view is None else [cell.text for cell in view.cells if isinstance(cell, AssistantCell)]
    if not answers:
        raise InvalidParamsError("there is no answer to copy yet")
    context.scene.say(f"copied the last answer, {len(answers[-1]):,} characters")
    await copy_text(context.scene.app, answers[-1])


async def _theme(context: CommandContext, rest: str) -> None:
    if not rest:
        rows = [(name, "in use" if name == context.scene.app.theme else "", name) for name in THEMES]
        context.scene.show_page(pages.list_page("themes", "Themes", rows))
        return
    if rest not in THEMES:
        raise InvalidParamsError(f"there is no theme {rest[:40]!r}; there are {', '.join(THEMES)}")
    use_theme(context.scene.app, rest)


async def _keys(context: CommandContext, rest: str) -> None:
    context.scene.show_page(pages.keys_page())


async def _help(context: CommandContext, rest: str) -> None:
    context.scene.show_page(pages.help_page())


async def _doctor(context: CommandContext, rest: str) -> None:
    if not context.actions.port.local:
        raise InvalidParamsError("run `tertulia doctor` on the machine of the session")
    # At once, because it takes a while: a page that comes later would take the keys from what is typed by then.
    scene, title = context.scene, "tertulia doctor"
    scene.show_page(pages.text_page("doctor", title, "looking at settings and programs"))
    text = await program_output("doctor")
    if scene.panes.page.content is not None and scene.panes.page.content.kind == "doctor":
        scene.panes.page.show(pages.text_page("doctor", title, text))


async def _quit(context: CommandContext, rest: str) -> None:
    context.quit()


# ── what is stored ───────────────────────────────────────────────────────────────────────────────────────────


async def _conv(context: CommandContext, rest: str) -> None:
    lines = await run_conv(context.actions.port, context.scene.board, rest, detach=True)
    if lines:
        context.scene.show_page(pages.text_page("conv", f"/conv {rest}", "\n".join(lines)))


async def _resume(context: CommandContext, rest: str) -> None:
    if rest:
        resume_session(context.scene, context.leave_for, await find_stored(context.scene, rest))
    else:
        pick_session(context.scene, context.actions, context.leave_for)


async def _replay(context: CommandContext, rest: str) -> None:
    session_id = await find_stored(context.scene, rest) if rest else context.scene.board.session_id
    if session_id is not None:
        replay_session(context.scene, context.actions, context.leave_for, session_id)


async def _prompt(context: CommandContext, rest: str) -> None:
    ago = rest.strip() or "0"
    if not (ago.isascii() and ago.isdigit() and len(ago) < 7):
        raise InvalidParamsError("/prompt takes a number: how many requests ago, as in /prompt 2")
    await show_prompt(context.scene, compared=False, ago=int(ago))


async def _diff(context: CommandContext, rest: str) -> None:
    if rest == "prompt":
        await show_prompt(context.scene, compared=True)
        return
    lines = await run_diff(context.actions.port, context.seen, rest)
    context.scene.show_page(pages.text_page("diff", "What was done to files", "\n".join(lines)))


async def _undo(context: CommandContext, rest: str) -> None:
    lines = await run_undo(context.actions.port, context.seen, rest)
    context.scene.show_page(pages.text_page("undo", f"/undo {rest}".rstrip(), "\n".join(lines)))


RUNNERS: dict[str, Callable[[CommandContext, str], Awaitable[None]]] = {
    "conv": _conv,
    "resume": _resume,
    "replay": _replay,
    "prompt": _prompt,
    "diff": _diff,
    "undo": _undo,
    "new": _new,
    "go": _go,
    "fork": _fork,
    "compact": _compact,
    "model": _model,
    "mcp": _mcp,
    "tools": _tools,
    "approvals": _approvals,
    "why": _why,
    "sandbox": _sandbox,
    "status": _status,
    "canvas": _canvas,
    "export": _export,
    "copy": _copy,
    "theme": _theme,
    "keys": _keys,
    "doctor": _doctor,
    "help": _help,
    "quit": _quit,
}
