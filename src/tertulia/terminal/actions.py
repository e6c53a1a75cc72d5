"""What a person can do to the session: each method calls one or two operations of the port."""

from __future__ import annotations

from typing import Any

from tertulia.errors import InvalidParamsError
from tertulia.protocol.ids import ConversationId
from tertulia.terminal.composer.messages import Submitted
from tertulia.terminal.port import Port
from tertulia.terminal.scene import Scene
from tertulia.terminal.undo_command import bring_back, files_since
from tertulia.view.cells import AssistantCell, ReasoningCell, UserCell
from tertulia.view.conversation_view import ConversationView
from tertulia.view.copied_cells import copy_cells


class Actions:
    """Calls the port for the person at the screen. A message that is sent before the session is ready waits for it."""

    def __init__(self, scene: Scene) -> None:
        """`scene`: what the person sees."""
        self._scene = scene
        self._port: Port | None = None
        self._waiting: list[Submitted] = []

    @property
    def port(self) -> Port:
        """The session that is shown.

        Raises:
            InvalidParamsError: It is still starting.
        """
        if self._port is None:
            raise InvalidParamsError("the session is still starting; try again when it stands")
        return self._port

    @property
    def attached(self) -> bool:
        """Whether there is a session."""
        return self._port is not None

    def attach(self, port: Port) -> None:
        """Use this port from now on."""
        self._port = port

    async def close(self) -> None:
        """Close the session, where there is one."""
        if self._port is not None:
            await self._port.close()

    async def send(self, message: Submitted) -> None:
        """Send what a person wrote to the seen conversation, to the one it names, or to a fork."""
        seen = self._scene.seen
        if self._port is None or seen is None:
            self._waiting.append(message)
            self._scene.say(f"{len(self._waiting)} waiting: sent when the session stands")
            return
        self._scene.say("")
        # A person who writes wants to see the answer, wherever the view was scrolled to.
        self._scene.panes.transcript.reader.go_last()
        target = seen if message.target is None else self._find(message.target)
        if message.fork_at is not None:
            target = await self._fork_before(target, message.fork_at, restores=message.restores)
        view = self._scene.board.conversations.get(target)
        works = view is not None and view.task_id is not None and not view.waits
        if message.how == "steer" and works and not message.attachments:
            await self._port.call("conversation/steer", conversation_id=target, text=message.text)
            return
        content: dict[str, Any] = {"text": message.text}
        if message.attachments:
            texts = [{"type": "text", "text": message.text}] if message.text else []
            content = {"items": [*texts, *(picture.item for picture in message.attachments)]}
        await self._port.call("conversation/message", conversation_id=target, detach=True, **content)

    async def send_waiting(self) -> None:
        """Send the messages that were written before the session was ready."""
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            await self.send(message)

    async def take_back(self) -> None:
        """Put the newest queued message back into the composer."""
        answer = await self.port.call("conversation/take_back", conversation_id=self._scene.seen)
        self._scene.panes.composer.put(answer["text"])

    def _find(self, name: str) -> ConversationId:
        views = self._scene.board.conversations.values()
        return next(view.id for view in views if not view.closed and self._scene.name(view.id) == name)

    async def offer_files(self, conversation_id: ConversationId, key: str) -> None:
        """Have the composer offer to bring files back as they were before the message of this cell."""
        moment = moment_before(self._scene.board.conversations[conversation_id], key)
        found = None if moment is None else await files_since(self.port, conversation_id, moment)
        composer = self._scene.panes.composer
        if found is not None and composer.fork is not None and composer.fork.key == key:
            composer.fork.files = found.files
            composer.redraw()

    async def _fork_before(self, conversation_id: ConversationId, key: str, *, restores: bool) -> ConversationId:
        """Open a copy of a conversation that ends before this message, as if the message had not been written."""
        view = self._scene.board.conversations[conversation_id]
        if restores and (moment := moment_before(view, key)) is not None:
            # Before the fork: where it is refused, the message has gone nowhere.
            self._scene.say(await bring_back(self.port, conversation_id, moment, self._scene.name(conversation_id)))
        index = next((index for index, cell in enumerate(view.cells) if cell.key == key), 0)
        point = fork_point(view, view.cells[index - 1].key) if index else None
        if point is not None:
            return await self.fork(conversation_id, point)
        # No item comes before the message: open an empty conversation instead.
        return await self.open(view.parent_id or view.id)

    async def interrupt(self, conversation_id: ConversationId, scope: str = "chain") -> None:
        """Stop the chain that this conversation works in; with `branch` the conversation and all that work for it."""
        answer = await self.port.call("conversation/interrupt", conversation_id=conversation_id, scope=scope)
        if not answer.get("interrupted", True):
            self._scene.say("nothing runs there")

    async def open(self, parent_id: ConversationId, title: str | None = None) -> ConversationId:
        """Open a conversation below this one, and show it; returns its id."""
        fields = {} if title is None else {"title": title}
        opened_id = await self._make("conversation/open", parent_id=parent_id, **fields)
        self._scene.see_when_open(opened_id)
        return opened_id

    async def close_conversation(self, conversation_id: ConversationId) -> None:
        """Close a conversation; root stays as long as its session."""
        if conversation_id == self._scene.board.root_id:
            raise InvalidParamsError("root stays as long as the session; /quit closes both")
        await self.port.call("conversation/close", conversation_id=conversation_id)

    async def fork(self, conversation_id: ConversationId, at: str | None = None) -> ConversationId:
        """Open a copy of a conversation up to a point, and show it; returns its id."""
        fields = {} if at is None else {"at": at}
        fork_id = await self._make("conversation/fork", conversation_id=conversation_id, **fields)
        history = await self.port.call("conversation/history", conversation_id=fork_id)
        copy_cells(self._scene.board, conversation_id, fork_id, len(history.get("entries", ())))
        self._scene.see_when_open(fork_id)
        return fork_id

    async def _make(self, operation: str, **fields: str) -> ConversationId:
        """Have a conversation made by an operation; returns its id."""
        return ConversationId((await self.port.call(operation, **fields))["conversation_id"])

    async def fork_and_tell(self, conversation_id: ConversationId, at: str | None) -> None:
        """Fork, give the composer the focus, and say that the original stays as it is."""
        moment = moment_of(self._scene.board.conversations[conversation_id], at)
        await self.fork(conversation_id, at)
        self._scene.panes.composer.take_focus()
        name = self._scene.name(conversation_id)
        found = None if moment is None else await files_since(self.port, conversation_id, moment)
        undo = "" if found is None else f"; in {name}, /undo to {found.checkpoint_id} brings its files back too"
        self._scene.say(f"a copy of {name} up to there; that one stays as it is{undo}")

    async def explain(self, command: str | None = None) -> None:
        """Show the rights of the seen conversation in the side panel; for a command also what would happen to it."""
        seen = self._scene.seen
        if self._port is None or seen is None:
            return
        question = {} if command is None else {"command": command}
        answer = await self.port.call("rights/explain", conversation_id=seen, **question)
        if seen == self._scene.seen:
            self._scene.panes.side.show_rights(answer, command or "")
            self._scene.panes.status.show_rights(answer)

    async def describe(self) -> None:
        """Read the data of the session that the status line and the side panel show."""
        info = await self.port.call("session/info")
        self._scene.stored = info["policy"].get("storage") != "none"
        self._scene.panes.status.show_session(info)
        await self.explain()
        await self.read_servers()

    async def read_servers(self) -> None:
        """Show the MCP servers with the number of their tools."""
        answer = await self.port.call("mcp/status")
        self._scene.panes.side.show_servers(answer["servers"])


def fork_point(view: ConversationView, key: str) -> str | None:
    """The item that a fork at this cell ends with: the cell's own, or that of the nearest text before it.

    None where there is none: then the whole history is copied.
    """
    found: str | None = None
    for cell in view.cells:
        if isinstance(cell, UserCell | AssistantCell | ReasoningCell):
            found = cell.item_id
        if cell.key == key:
            return found
    return None


def moment_before(view: ConversationView, key: str) -> str | None:
    """When the message of a cell was written; None where it joined a task at work: files are not recorded there."""
    cell = next((cell for cell in view.cells if cell.key == key), None)
    return None if cell is None or (isinstance(cell, UserCell) and cell.how == "steer") else cell.ts


def moment_of(view: ConversationView, item_id: str | None) -> str | None:
    """When the text of an item was written; None where no text of it is shown."""
    texts = (cell for cell in view.cells if isinstance(cell, UserCell | AssistantCell | ReasoningCell))
    return next((cell.ts for cell in texts if cell.item_id == item_id), None)
