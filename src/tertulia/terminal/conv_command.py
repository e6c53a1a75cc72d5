"""`/conv …`: does in a session what `tertulia conv` does (S004-37). For the screen and for `--plain`.

Every command is one or two operations of the port; `call` runs any conversation tool as the root would.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.protocol.ids import ConversationId
from tertulia.terminal.port import Port
from tertulia.view.board_state import BoardState
from tertulia.view.text import ASCII_MARKS, STATE_MARKS, STATE_WORDS, name_of

USAGE = (
    "/conv ls",
    "/conv create [--title NAME] [TEXT]",
    "/conv send C TEXT",
    "/conv history C",
    "/conv destroy C",
    "/conv merge C",
    "/conv call TOOL JSON",
)
"""The usage text. C is a conversation: `root`, its name, its id, or the beginning of its id."""


class ConvRequest(msgspec.Struct, frozen=True):
    """One `/conv` command: where it is run, and what was typed behind its name."""

    port: Port
    board: BoardState
    rest: str
    detach: bool
    """Do not wait for the answer to a message, which its events report."""

    def conversation(self) -> tuple[ConversationId, str]:
        """The conversation that is named first, and what follows its name."""
        word, _, rest = self.rest.strip().partition(" ")
        if not word:
            raise InvalidParamsError(f"which conversation? {'; '.join(USAGE[2:6])}")
        return find_conversation(self.board, word), rest.strip()


def find_conversation(board: BoardState, word: str) -> ConversationId:
    """The open conversation that is named by `root`, its name, its id or the beginning of it."""
    open_views = [view for view in board.conversations.values() if not view.closed]
    for names in (
        [view.id for view in open_views if word in (view.id, name_of(view, board.root_id))],
        [view.id for view in open_views if view.id.startswith(word)],
    ):
        if len(names) == 1:
            return names[0]
        if names:
            raise InvalidParamsError(f"{len(names)} conversations fit {word[:40]!r}; give the id of the one you mean")
    raise InvalidParamsError(f"there is no open conversation {word[:40]!r}; `/conv ls` shows those that there are")


async def run_conv(port: Port, board: BoardState, rest: str, *, detach: bool = False) -> list[str]:
    """Run what was typed behind `/conv`.

    Args:
        port: The session.
        board: What is known of its conversations.
        rest: The text behind `/conv`.
        detach: Do not wait for the answer to a message: its events tell it.

    Returns:
        Lines for the person; what a model wrote is in them as it came.

    Raises:
        TertuliaError: What was typed is no command, or the operation was refused.
    """
    name, _, rest = rest.strip().partition(" ")
    run = _COMMANDS.get(name or "ls")
    if run is None:
        raise InvalidParamsError(f"there is no `/conv {name[:40]}`; there are {', '.join(USAGE)}")
    return await run(ConvRequest(port, board, rest, detach))


def conversation_lines(board: BoardState, *, ascii_marks: bool = False) -> list[str]:
    """The conversations, each below its parent, with its state in words."""
    marks = ASCII_MARKS if ascii_marks else STATE_MARKS
    return [
        f"{'  ' * view.depth}{marks[view.state]} {name_of(view, board.root_id)}  {view.id}  {STATE_WORDS[view.state]}"
        for view in board.tree()
    ]


async def _ls(request: ConvRequest) -> list[str]:
    return conversation_lines(request.board)


async def _create(request: ConvRequest) -> list[str]:
    text, fields = request.rest.strip(), dict[str, Any]()
    if text.startswith("--title "):
        fields["title"], _, text = text.removeprefix("--title ").strip().partition(" ")
    opened = await request.port.call("conversation/open", **fields)
    id = opened["conversation_id"]
    if not text.strip():
        return [f"{id} is open"]
    await request.port.call("conversation/message", conversation_id=id, text=text.strip(), detach=request.detach)
    return []


async def _send(request: ConvRequest) -> list[str]:
    id, text = request.conversation()
    if not text:
        raise InvalidParamsError(f"there is no text to send: {USAGE[2]}")
    await request.port.call("conversation/message", conversation_id=id, text=text, detach=request.detach)
    return []


async def _history(request: ConvRequest) -> list[str]:
    id, _ = request.conversation()
    answer = await request.port.call("conversation/history", conversation_id=id)
    return [f"{entry['role']}: {entry.get('text') or '(pictures)'}" for entry in answer["entries"]]


async def _destroy(request: ConvRequest) -> list[str]:
    id, _ = request.conversation()
    answer = await request.port.call("conversation/close", conversation_id=id)
    worktree = answer.get("kept_worktree")
    stays = "" if worktree is None else f"; its worktree {worktree} stays: something in it is not committed"
    return [f"{id} is closed{stays}"]


async def _merge(request: ConvRequest) -> list[str]:
    id, mode = request.conversation()
    answer = await request.port.call("conversation/merge", conversation_id=id, mode=mode or "apply")
    if not answer["merged"]:
        return [f"nothing to merge: all of {answer['branch']} is here"]
    lines = [f"{file['status']} {file['path']}" for file in answer["files"]]
    lines += [f"not merged {left['path']}: {left['reason']}" for left in answer["left_out"]]
    return lines + ([f"committed: {answer['commit']}"] if answer.get("commit") else [])


async def _call(request: ConvRequest) -> list[str]:
    # Imported here: the session is loaded by then, and no screen needs it earlier.
    from tertulia.terminal.local_port import LocalPort

    if not isinstance(request.port, LocalPort):
        raise InvalidParamsError("a conversation tool can only be called where the session runs; use /conv send")
    name, _, arguments = request.rest.strip().partition(" ")
    result = await request.port.session.root.call_conv_tool(name, arguments.strip() or "{}")
    return [result.text]


_COMMANDS: Mapping[str, Callable[[ConvRequest], Awaitable[list[str]]]] = {
    "ls": _ls,
    "create": _create,
    "send": _send,
    "history": _history,
    "destroy": _destroy,
    "merge": _merge,
    "call": _call,
}
