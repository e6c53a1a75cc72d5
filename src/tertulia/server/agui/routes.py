"""The routes at `/ag-ui`: a run becomes a message of a conversation, and what happens there goes back as AG-UI events.

A client that closes its connection stops its task, as `abortRun` does. What needs a person ends the run with an
interrupt while the task waits; the next run of the thread that resumes it brings the answers and goes on with it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterable
from contextlib import ExitStack
from typing import Any, cast

from starlette.routing import Route

from tertulia.errors import InvalidParamsError, NotFoundError, TertuliaError
from tertulia.mcp.server_connection import Spawn
from tertulia.protocol.events import Event
from tertulia.protocol.ids import new_item_id
from tertulia.protocol.inputs import Message
from tertulia.protocol.tool_events import ApprovalRequest, ElicitationRequest
from tertulia.server.agui.events import Json, RunEvents, approval_interrupt, custom, elicitation_interrupt
from tertulia.server.agui.requests import ResumeEntry, RunRequest, read_run
from tertulia.server.http.guard import DECODED_BODY, Receive, Scope, Send
from tertulia.server.http.streaming import StreamedAnswer, until_gone
from tertulia.server.openai.answers import ShownText, error_status
from tertulia.server.openai.chats import PREFIX, Chats, OpenChat
from tertulia.server.openai.requests import ChatRequest
from tertulia.session.approvals.approvals import answering_as
from tertulia.session.host import Host
from tertulia.session.inputs import parse
from tertulia.session.submission import Submission

MAX_PAUSED = 100
"""The most tasks that wait for the answers of front ends; beyond it the one that waits longest is stopped."""
PAUSED_S = 900.0
"""Seconds that one waits for its front end."""
_FIELDS = {"decision", "scope", "ttl_s", "message"}
_CLIENT = "AG-UI client"


class RunningTask:
    """A task that a run has begun, through all the runs in which it goes on."""

    def __init__(self, chat: OpenChat, request: ChatRequest, submission: Submission, message_id: str) -> None:
        self.chat = chat
        self.request = request
        self.message_id = message_id
        self.submission = submission
        self.events: AsyncGenerator[Event, None] = submission.events()
        self.shown = ShownText()
        self.at_end = ExitStack()
        self.open: set[str] = set()
        """The ids of what this task has asked and that is not answered, as far as its events have come."""
        self.pauses = 0
        """How often it has waited for answers."""
        self.is_read = False
        """Whether reading its events has begun; from then on their end stops the task."""

    async def close(self) -> None:
        """Stop the task, if it is not over."""
        with self.at_end:
            await self.events.aclose()
            if not self.is_read and self.submission.item is not None:
                self.submission.stop()

    async def questions(self) -> list[ApprovalRequest | ElicitationRequest]:
        """What this task has asked a person and waits for now."""
        return [question for question in await self.waiting() if question_id(question) in self.open]

    async def waiting(self) -> list[ApprovalRequest | ElicitationRequest]:
        """What waits for a person in its conversation now."""
        approvals, conversation = self.chat.session.approvals, self.chat.conversation.id
        return [*await approvals.pending(conversation), *await approvals.elicitations(conversation)]

    async def answer(self, entries: Iterable[ResumeEntry]) -> None:
        """Resolve what these are the answers to. InvalidParams for one that cannot be read, and no answer counts."""
        answers = [(entry.interrupt_id, _decision(entry)) for entry in entries]
        with answering_as(_CLIENT):
            for interrupt_id, fields in answers:
                await self.chat.session.approvals.resolve(interrupt_id, **fields)


def question_id(question: ApprovalRequest | ElicitationRequest) -> str:
    """The id under which it is answered."""
    return question.approval_id if isinstance(question, ApprovalRequest) else question.elicitation_id


class AgUiRoutes:
    """Serves AG-UI clients the conversations and agents of a host."""

    def __init__(self, host: Host, spawn: Spawn) -> None:
        self._spawn = spawn
        self._chats = Chats(host, spawn, "the session of AG-UI clients")
        self._paused: OrderedDict[str, RunningTask] = OrderedDict()
        """Tasks that wait for answers, by the id of each interrupt, the longest waiting first."""
        self.routes: list[Route] = [
            Route("/ag-ui", _Runs(self, f"{PREFIX}root"), methods=["POST"]),
            Route("/ag-ui/{name:path}", _Runs(self, None), methods=["POST"]),
        ]

    async def run(self, request: RunRequest, answer: StreamedAnswer) -> None:
        """One run, to its end or to its next interrupt."""
        task = await self._resume(request) if request.chat is None else await self._begin(request, request.chat)
        try:
            await answer.begin(_ignored(request))
            events = RunEvents(request.thread_id, request.run_id)
            await answer.data(events.begin())
            async with answer.unbroken():
                is_paused = await self._stream(task, events, answer)
            if not is_paused:
                await self._finish(task, events, answer)
            await answer.end()
        except BaseException:
            self._forget(task)
            await task.close()
            raise

    async def _begin(self, request: RunRequest, chat_request: ChatRequest) -> RunningTask:
        for waiting in self._paused.values():
            if waiting.message_id == request.message_id:
                # Sent again while it waits: the same task asks in this run again.
                self._forget(waiting)
                return waiting
        chat = await self._chats.find(chat_request, request.message_id)
        fields = {
            "conversation_id": chat.conversation.id,
            "items": chat_request.items,
            "message_id": request.message_id,
        }
        submission = chat.conversation.submit(parse(Message, fields), follow=True, approver=True)
        task = RunningTask(chat, chat_request, submission, request.message_id)
        task.at_end.enter_context(self._chats.answering(chat))
        if submission.item is None and chat.session.activity.current_task == submission.task_id:
            # Sent again while it runs: what it asks may have passed.
            task.open = {question_id(one) for one in await task.waiting()}
        return task

    async def _resume(self, request: RunRequest) -> RunningTask:
        tasks = {id(task): task for entry in request.resume if (task := self._paused.get(entry.interrupt_id))}
        if len(tasks) != 1 or any(entry.interrupt_id not in self._paused for entry in request.resume):
            raise NotFoundError(
                "no task waits here for these answers: it has gone on or was stopped; send the message again"
            )
        (task,) = tasks.values()
        waiting = [key for key, one in self._paused.items() if one is task]
        # Before anything is awaited: it goes on in one run.
        self._forget(task)
        try:
            await task.answer(request.resume)
        except BaseException:
            self._paused.update(dict.fromkeys(waiting, task))
            raise
        return task

    async def _stream(self, task: RunningTask, events: RunEvents, answer: StreamedAnswer) -> bool:
        """Send what happens, until the task is over or needs a person; whether it does."""
        if await self._pause_if_asked(task, events, answer):
            return True
        task.is_read = True
        async for event in task.events:
            if isinstance(event.data, ApprovalRequest | ElicitationRequest):
                task.open.add(question_id(event.data))
                await answer.data(custom(event.data))
                if await self._pause_if_asked(task, events, answer):
                    return True
            elif event.conversation_id == task.chat.conversation.id:
                task.shown.add(event.data)
                for value in events.of(event.data):
                    await answer.data(value)
        return False

    async def _pause_if_asked(self, task: RunningTask, events: RunEvents, answer: StreamedAnswer) -> bool:
        questions = await task.questions()
        if not questions:
            return False
        interrupts: list[Json] = []
        for question in questions:
            is_approval = isinstance(question, ApprovalRequest)
            interrupt = approval_interrupt(question) if is_approval else elicitation_interrupt(question)
            interrupts.append(interrupt)
            self._paused[interrupt["id"]] = task
        task.pauses += 1
        self._spawn(self._expire(task, task.pauses), "a task that waits for a front end")
        for value in events.interrupted(interrupts):
            await answer.data(value)
        waiting = list(dict.fromkeys(self._paused.values()))
        for old in waiting[: max(len(waiting) - MAX_PAUSED, 0)]:
            self._forget(old)
            await old.close()
        return True

    async def _finish(self, task: RunningTask, events: RunEvents, answer: StreamedAnswer) -> None:
        reply = await task.submission.reply()
        text = task.shown.text
        if not text and reply.text:
            # The same run was sent again when it was over: its events have passed.
            text = reply.text
            for value in events.text(text):
                await answer.data(value)
        if reply.status == "completed":
            self._chats.remember(task.request, task.chat, text, f"run_{new_item_id()}")
        await task.close()
        for value in events.end(reply):
            await answer.data(value)

    async def _expire(self, task: RunningTask, pauses: int) -> None:
        """Stop a task whose front end does not come back: by then its questions were answered by the clock."""
        await asyncio.sleep(PAUSED_S)
        if task.pauses == pauses and task in self._paused.values():
            self._forget(task)
            await task.close()

    def _forget(self, task: RunningTask) -> None:
        for interrupt_id in [key for key, waiting in self._paused.items() if waiting is task]:
            del self._paused[interrupt_id]


class _Runs:
    """The ASGI application of a path."""

    def __init__(self, runs: AgUiRoutes, name: str | None) -> None:
        """`name`: the conversation or agent; None: the path has it."""
        self._runs = runs
        self._name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = StreamedAnswer(send)
        try:
            request = read_run(scope.pop(DECODED_BODY, None), self._name or scope["path_params"]["name"])
            # The body, which was read before; after it only the end of the connection comes.
            await receive()
            await until_gone(receive, self._runs.run(request, answer))
        except TertuliaError as error:
            await _refuse(answer, error)


async def _refuse(answer: StreamedAnswer, error: TertuliaError) -> None:
    if answer.has_begun:
        await answer.data({"type": "RUN_ERROR", "message": error.message, "code": error.code})
        await answer.end()
    else:
        await answer.whole(error_status(error), {"error": {"code": error.code, "message": error.message}})


def _decision(entry: ResumeEntry) -> dict[str, Any]:
    if entry.status == "cancelled":
        return {"decision": "deny"}
    payload = cast("dict[str, Any]", entry.payload) if isinstance(entry.payload, dict) else {}
    if payload and "decision" not in payload:
        return {"decision": "allow", "content": payload}
    if payload.get("decision") not in ("allow", "deny") or payload.keys() - _FIELDS:
        raise InvalidParamsError(
            f"the answer to {entry.interrupt_id:.64} must be an object: `decision` (allow or deny), and perhaps "
            "`scope`, `ttl_s` and `message`; to an elicitation, what its schema asks for"
        )
    return payload


def _ignored(request: RunRequest) -> list[tuple[bytes, bytes]]:
    return [(b"x-tertulia-ignored", ", ".join(request.ignored).encode())] if request.ignored else []
