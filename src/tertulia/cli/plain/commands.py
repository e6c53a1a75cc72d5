"""The slash commands of `--plain`: each is one operation of the port, and its answer as lines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

from tertulia.errors import InvalidParamsError
from tertulia.protocol.ids import ConversationId
from tertulia.terminal.commands.command_list import COMMANDS, find_command
from tertulia.terminal.conv_command import USAGE, conversation_lines, find_conversation, run_conv
from tertulia.terminal.port import Port
from tertulia.terminal.undo_command import run_diff, run_undo
from tertulia.view.board import Board
from tertulia.view.text import budget_text, name_of

LEAVING = frozenset({"/exit", "/quit"})


def message_text(line: str) -> str:
    """The message that a typed line is: `//` stands for a slash at its beginning."""
    return line.removeprefix("/") if line.startswith("//") else line


class PlainCommands:
    """Runs what begins with a slash, for the conversation that the person talks to."""

    def __init__(self, port: Port, board: Board) -> None:
        self._port = port
        self._board = board
        self._seen: ConversationId | None = None

    @property
    def conversation_id(self) -> ConversationId:
        """The conversation that is talked to: the root, until `/go` names another."""
        return self._seen or self._board.root_id or ConversationId("root")

    @property
    def name(self) -> str | None:
        """What it is called; None for the root."""
        view = None if self._seen is None else self._board.conversations.get(self._seen)
        return None if view is None else name_of(view, self._board.root_id)

    async def run(self, line: str) -> list[str]:
        """The lines that a command answers. TertuliaError: it was refused, or there is none of that name."""
        name, _, rest = line.removeprefix("/").partition(" ")
        command = self.commands.get(name)
        if command is None:
            find_command(name)
            raise InvalidParamsError(f"/{name} is for the screen: leave, and start without --plain")
        return await command(self, rest.strip())

    async def _help(self, rest: str) -> list[str]:
        lines = [f"/{one.name} {one.takes}".rstrip() + f": {one.help}" for one in COMMANDS if one.name in self.commands]
        return [
            *(line for line in lines if not line.startswith("/conv ")),
            *USAGE,
            "//…: send a line that begins with /",
            "while a task runs: a line goes into the task, /queue TEXT sends one after it, Ctrl-C or /stop stops it",
            "/exit: close the session and leave; `tertulia resume --last` goes on",
        ]

    async def _conv(self, rest: str) -> list[str]:
        return await run_conv(self._port, self._board, rest)

    async def _list(self, rest: str) -> list[str]:
        return conversation_lines(self._board)

    async def _go(self, rest: str) -> list[str]:
        if not rest:
            raise InvalidParamsError("which conversation? /go C; `/conv ls` shows them")
        self._seen = find_conversation(self._board, rest)
        return [f"what you type goes to {name_of(self._board.conversations[self._seen], self._board.root_id)} now"]

    async def _compact(self, rest: str) -> list[str]:
        answer = await self._call("conversation/compact")
        return [] if answer["compacted"] else [f"the history was not shortened: {answer.get('reason')}"]

    async def _tools(self, rest: str) -> list[str]:
        answer = await self._call("conversation/tools")
        return [
            f"{tool['name']}: {' '.join(str(tool.get('description') or '').split())[:120]}" for tool in answer["tools"]
        ]

    async def _mcp(self, rest: str) -> list[str]:
        answer = await self._port.call("mcp/status")
        lines = [f"{server['name']}: {server['status']}{_behind(server.get('error'))}" for server in answer["servers"]]
        return lines or ["no MCP server is used"]

    async def _why(self, rest: str) -> list[str]:
        params = {"command": rest} if rest else {}
        answer = await self._call("rights/explain", **params)
        action = answer.get("action")
        if action is not None:
            sandbox = "" if action.get("sandbox") is None else f"; in the sandbox: {action['sandbox']}"
            return [f"{_VERDICTS[action['verdict']]}: {action['because']}, set by {action['set_by']}{sandbox}"]
        return [_right_line(right) for right in answer["rights"]]

    async def _approvals(self, rest: str) -> list[str]:
        word, _, grant = rest.partition(" ")
        if word == "revoke" and grant:
            await self._port.call("approval/revoke", grant_id=grant.strip())
            return [f"{grant.strip()} is taken back"]
        answer = await self._port.call("approval/grants")
        lines = [
            f"{grant['grant_id']}: {', '.join(grant['matches'])}, for {grant['scope']}" for grant in answer["grants"]
        ]
        return [*lines, "/approvals revoke ID takes one back"] if lines else ["nothing is allowed for longer than once"]

    async def _status(self, rest: str) -> list[str]:
        info, board = await self._port.call("session/info"), self._board
        tokens = f"{board.input_tokens:,} in ({board.cached_input_tokens:,} cached), {board.output_tokens:,} out"
        budget = (await self._call("metrics/get")).get("budget")
        used = [] if budget is None else [f"budget {budget_text(budget)}"]
        return [f"session {info['session_id']}, {info['model']}, {tokens} tokens", *used, *conversation_lines(board)]

    async def _undo(self, rest: str) -> list[str]:
        return await run_undo(self._port, self.conversation_id, rest)

    async def _diff(self, rest: str) -> list[str]:
        return await run_diff(self._port, self.conversation_id, rest)

    async def _call(self, name: str, **params: Any) -> Any:
        return await self._port.call(name, conversation_id=self.conversation_id, **params)

    commands: ClassVar[Mapping[str, Callable[..., Awaitable[list[str]]]]] = {
        "help": _help,
        "conv": _conv,
        "conversations": _list,
        "go": _go,
        "status": _status,
        "why": _why,
        "approvals": _approvals,
        "tools": _tools,
        "mcp": _mcp,
        "compact": _compact,
        "undo": _undo,
        "diff": _diff,
    }
    """What each name does; what it is for stands in the one list of commands."""


_VERDICTS = {"run": "it would run", "ask": "you would be asked", "deny": "it would be refused"}


def _behind(text: object) -> str:
    return f", {text}" if text else ""


def _right_line(right: Mapping[str, Any]) -> str:
    source = f" ({right['source']})" if right.get("source") else ""
    wish = f", asked was {right['asked']}" if right.get("asked") is not None else ""
    return f"{right['field']}: {right['value']}, set by {right['set_by']}{source}{wish}"
