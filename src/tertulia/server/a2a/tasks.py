"""All tasks of the A2A surface: contexts are conversations, and what is over is kept for a while."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any

from tertulia.errors import InvalidParamsError, NotFoundError, TertuliaError
from tertulia.events.clock import SystemClock, Timestamps
from tertulia.mcp.server_connection import Spawn
from tertulia.protocol.inputs import Message
from tertulia.protocol.name_hints import name_hint
from tertulia.server.a2a.requests import (
    A2aError,
    Json,
    ListParams,
    MessageInput,
    SendParams,
    task_not_found,
    unsupported,
)
from tertulia.server.a2a.task import A2aTask
from tertulia.server.openai.chats import PREFIX
from tertulia.server.shared_session import SharedSession
from tertulia.session.handle import Conversation
from tertulia.session.host import Host
from tertulia.session.inputs import parse
from tertulia.session.session import Session

MAX_TASKS = 1_000
"""The most tasks that are kept; beyond it the oldest that is over is forgotten, and no new one begins where none is."""
MAX_CONTEXTS = 500
"""The most conversations that are held open for this surface; beyond it the least recently used one is closed."""
MAX_PAGE = 100


class A2aTasks:
    """The tasks of all agents of this surface."""

    def __init__(self, host: Host, spawn: Spawn) -> None:
        self._host = host
        self._spawn = spawn
        self._now = Timestamps(SystemClock())
        self._shared = SharedSession(host, spawn, "the session of A2A clients")
        self._tasks: OrderedDict[str, A2aTask] = OrderedDict()
        self._by_message: dict[tuple[str, str], asyncio.Task[A2aTask | TertuliaError]] = {}
        """The tasks of messages, by the agent and the client's own id."""
        self._own: OrderedDict[str, tuple[str, Session, Conversation]] = OrderedDict()
        """The conversations that this surface opened, each with its agent, the most recently used last."""

    def names(self) -> list[tuple[str, str]]:
        """The agents that have a card, each with its description."""
        tables: dict[str, Any] = {**self._host.settings.agents}
        return [(name, str(table.get("description") or "")) for name, table in tables.items()]

    async def check_name(self, name: str) -> None:
        """Refuse an agent or a conversation that there is not."""
        if name.startswith(PREFIX):
            _find_named(await self._shared.get(), name.removeprefix(PREFIX))
        elif name and name not in self._host.settings.agents:
            hint = name_hint(name[:64], [f"{PREFIX}root", *self._host.settings.agents])
            raise NotFoundError(f"there is no agent {name!r:.64}; {hint}")

    async def send(self, params: SendParams, name: str) -> A2aTask:
        """Begin a task with a message, or give the message to the task that it names."""
        message, config = params.message, params.configuration
        if config.task_push_notification_config is not None:
            raise push_unsupported()
        if message.task_id is not None:
            return await self._go_on(params)
        key = name, message.message_id
        begun = self._by_message.get(key)
        if begun is None:
            # Noted before it has begun: of two requests at once with one id the second gets the task of the first.
            begun = self._by_message[key] = self._spawn(self._begun(message, name), "begin a task of an A2A client")
            begun.add_done_callback(lambda done: self._drop_failed(key, done))
        task = await asyncio.shield(begun)
        if isinstance(task, TertuliaError):
            raise task
        return task

    async def _begun(self, message: MessageInput, name: str) -> A2aTask | TertuliaError:
        """Returns a refusal, which is the client's to hear: raised, it would be logged as a failure of ours."""
        try:
            return await self._begin(message, name)
        except TertuliaError as error:
            return error

    async def _begin(self, message: MessageInput, name: str) -> A2aTask:
        items = message.items()
        session, conversation = await self._context(name, message.context_id)
        is_new = conversation.id not in self._own and not name.startswith(PREFIX)
        fields = {"conversation_id": conversation.id, "items": items}
        try:
            self._make_room()
            submission = conversation.submit(parse(Message, fields), follow=True, approver=True)
        except BaseException:
            if is_new:
                await conversation.close()
            raise
        task = A2aTask(session, conversation, submission, message, self._now)
        self._tasks[task.id] = task
        self._spawn(self._follow(task), "a task of an A2A client")
        if is_new:
            self._own[conversation.id] = name, session, conversation
            await self._close_least_used()
        return task

    def _drop_failed(self, key: tuple[str, str], begun: asyncio.Task[A2aTask | TertuliaError]) -> None:
        """A message that was refused may be sent again under its id."""
        failed = begun.cancelled() or begun.exception() is not None or isinstance(begun.result(), TertuliaError)
        if failed and self._by_message.get(key) is begun:
            del self._by_message[key]

    def find(self, task_id: str) -> A2aTask:
        """The task of that id; an error of A2A's own where there is none."""
        task = self._tasks.get(task_id)
        if task is None:
            raise task_not_found(task_id)
        return task

    def listed(self, params: ListParams) -> Json:
        """A page of the tasks, newest first."""
        if not 1 <= (params.page_size or 50) <= MAX_PAGE:
            raise InvalidParamsError(f"pageSize must be from 1 to {MAX_PAGE}")
        found = [
            task
            for task in reversed(self._tasks.values())
            if params.context_id in (None, "", task.conversation.id)
            and params.status in (None, "", "TASK_STATE_UNSPECIFIED", f"TASK_STATE_{task.state}")
        ]
        start, size = _page_start(found, params.page_token), params.page_size or 50
        page = found[start : start + size]
        more = found[start + size : start + size + 1]
        return {
            "tasks": [task.as_json(history=params.history_length, artifacts=params.include_artifacts) for task in page],
            "nextPageToken": more[0].id if more else "",
            "pageSize": size,
            "totalSize": len(found),
        }

    async def _go_on(self, params: SendParams) -> A2aTask:
        message = params.message
        task = self.find(message.task_id or "")
        if message.context_id not in (None, "", task.conversation.id):
            raise InvalidParamsError("contextId is not the one of the task; leave it out")
        if task.is_over:
            raise unsupported(f"the task {task.id} is over; send the message without taskId to begin another one")
        await task.answer(message)
        return task

    async def _context(self, name: str, context_id: str | None) -> tuple[Session, Conversation]:
        session = await self._shared.get()
        if name.startswith(PREFIX):
            conversation = _find_named(session, name.removeprefix(PREFIX))
            if context_id not in (None, "", conversation.id):
                raise NotFoundError(f"there is no context {context_id!r:.64} here: the only one is {conversation.id}")
            return session, conversation
        if context_id:
            known = self._own.get(context_id)
            if known is None or known[0] != name:
                raise NotFoundError(f"there is no context {context_id!r:.64} here; leave it out to begin one")
            if known[1].closed:
                # Closed while no client used it, and resumed: its conversations are there again.
                self._own[context_id] = known = name, session, session.conversation(context_id)
            self._own.move_to_end(context_id)
            return known[1:]
        return session, await session.open(agent=name) if name else await session.open()

    async def _close_least_used(self) -> None:
        busy = {task.conversation.id for task in self._tasks.values() if not task.is_over}
        for context_id, (_, session, conversation) in list(self._own.items()):
            if len(self._own) <= MAX_CONTEXTS:
                return
            if context_id not in busy and context_id != next(reversed(self._own)):
                del self._own[context_id]
                if not session.closed:
                    await conversation.close()

    def _make_room(self) -> None:
        for task in list(self._tasks.values()):
            if len(self._tasks) < MAX_TASKS:
                return
            if task.is_over:
                del self._tasks[task.id]
                self._by_message = {
                    key: begun
                    for key, begun in self._by_message.items()
                    if not begun.done() or begun.result() is not task
                }
        if len(self._tasks) >= MAX_TASKS:
            raise unsupported(f"{MAX_TASKS:,} tasks run already; cancel one or wait for its end")

    async def _follow(self, task: A2aTask) -> None:
        try:
            await task.follow()
        except TertuliaError as error:
            task.fail(error)


def push_unsupported() -> A2aError:
    """The error for every method of push notifications: there are none."""
    return A2aError("there are no push notifications; stream or poll", -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED")


def _find_named(session: Session, name: str) -> Conversation:
    if name == "root":
        return session.root
    found = [one for one in session.conversations() if name in (one.id, one.info.title)]
    if len(found) != 1:
        count = "no open conversation has" if not found else f"{len(found)} conversations have"
        raise NotFoundError(f"{count} the id or the title {name!r:.64}; {PREFIX}root is always there")
    return found[0]


def _page_start(found: list[A2aTask], token: str | None) -> int:
    if not token:
        return 0
    start = next((number for number, task in enumerate(found) if task.id == token), None)
    if start is None:
        raise InvalidParamsError("pageToken is not one that was given here, or its task is forgotten; begin again")
    return start
