"""One task of A2A: a message that was submitted, followed to its end also without a client, and shown to clients.

Listeners hold no queue: each remembers how far it has come, so one that is slow is sent more at once later.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Literal

from tertulia.errors import InvalidParamsError, TertuliaError
from tertulia.events.clock import Timestamps
from tertulia.protocol.events import Event
from tertulia.protocol.ids import new_item_id
from tertulia.protocol.tool_events import ApprovalRequest, ApprovalResolved, ElicitationRequest, ElicitationResolved
from tertulia.scheduler.reply import Reply
from tertulia.server.a2a.requests import Json, MessageInput, unsupported
from tertulia.server.openai.answers import ShownText
from tertulia.session.approvals.approvals import answering_as
from tertulia.session.handle import Conversation
from tertulia.session.session import Session
from tertulia.session.submission import Submission

State = Literal["SUBMITTED", "WORKING", "INPUT_REQUIRED", "COMPLETED", "FAILED", "CANCELED"]
_ENDS: tuple[State, ...] = ("COMPLETED", "FAILED", "CANCELED")
_MOST_PARTS, _MOST_TEXT = 32, 20_000
_CLIENT = "A2A client"
_YES, _NO = ("allow", "yes", "y", "ok"), ("deny", "no", "n")


class A2aTask:
    """A task, from its message to its one end."""

    def __init__(
        self,
        session: Session,
        conversation: Conversation,
        submission: Submission,
        message: MessageInput,
        now: Timestamps,
    ) -> None:
        self.id: str = submission.task_id
        self.session = session
        self.conversation = conversation
        self._submission = submission
        self._now = now
        self._shown = ShownText()
        self._pieces: list[str] = []
        self._statuses: list[Json] = []
        self._history: list[Json] = [_spoken(message)]
        self._open: dict[str, ApprovalRequest | ElicitationRequest] = {}
        self._news = asyncio.Event()
        self.state: State = "SUBMITTED"
        self._enter("SUBMITTED")

    @property
    def is_over(self) -> bool:
        """Whether it has come to its end."""
        return self.state in _ENDS

    @property
    def rests(self) -> bool:
        """Whether nothing comes until the client does something."""
        return self.is_over or self.state == "INPUT_REQUIRED"

    async def follow(self) -> None:
        """Follow the task to its end. It runs on whether a client listens or not."""
        async with aclosing(self._submission.events()) as events:
            async for event in events:
                self._hear(event)
        self._end(await self._submission.reply())

    async def cancel(self) -> bool:
        """Stop it, and return when it has come to its end; False where it was over."""
        if self.is_over or not self._submission.stop():
            return False
        while not self.is_over:
            await self._news.wait()
        return True

    async def answer(self, message: MessageInput) -> None:
        """Take the client's next message: the answer to what waits for it, or a word to an agent at work."""
        if not self._open:
            if any(task.task_id == self.id and task.status == "queued" for task in self.session.activity.tasks):
                raise unsupported(f"the task {self.id} waits for its turn; it can be told nothing before it runs")
            if any(part.text is None for part in message.parts):
                raise InvalidParamsError("a task at work takes text alone; begin another task for pictures and data")
            await self.conversation.steer(message.text)
            self._history.append(_spoken(message))
            return
        data = message.data
        wanted = data.get("id") or next(iter(self._open))
        question = self._open.get(wanted) if isinstance(wanted, str) else None
        if question is None:
            raise InvalidParamsError(f"nothing waits under the id {str(wanted)[:64]!r}; {', '.join(self._open)} does")
        fields = _decision(question, message)
        with answering_as(_CLIENT):
            await self.session.approvals.resolve(str(wanted), **fields)
        self._history.append(_spoken(message))
        self._settle(str(wanted))

    def as_json(self, *, history: int | None = None, artifacts: bool = True) -> Json:
        """The task as clients read it; `history`: how many messages, None for all."""
        messages = self._history if history is None else self._history[max(len(self._history) - max(history, 0), 0) :]
        text = "".join(self._pieces)
        return {
            "id": self.id,
            "contextId": self.conversation.id,
            "status": self._statuses[-1],
            **({"artifacts": [_artifact(text)]} if text and artifacts else {}),
            **({"history": messages} if messages else {}),
        }

    async def updates(self) -> AsyncGenerator[Json]:
        """The task as it is, then what changes, until it rests."""
        # Counted before each `yield`: while the client is sent one, more may come.
        pieces, statuses = len(self._pieces), len(self._statuses)
        yield {"task": self.as_json()}
        ids = {"taskId": self.id, "contextId": self.conversation.id}
        while True:
            news, rests = self._news, self.rests
            new_pieces, new_statuses = self._pieces[pieces:], self._statuses[statuses:]
            if text := "".join(new_pieces):
                update = {**ids, "artifact": _artifact(text), "append": pieces > 0, "lastChunk": self.is_over}
                pieces += len(new_pieces)
                yield {"artifactUpdate": update}
            for status in new_statuses:
                yield {"statusUpdate": {**ids, "status": status}}
            statuses += len(new_statuses)
            if rests and news is self._news:
                return
            await news.wait()

    def _hear(self, event: Event) -> None:
        match event.data:
            case ApprovalRequest() as request:
                self._open[request.approval_id] = request
                self._enter("INPUT_REQUIRED", _approval_parts(request))
            case ElicitationRequest() as request:
                self._open[request.elicitation_id] = request
                self._enter("INPUT_REQUIRED", _elicitation_parts(request))
            case ApprovalResolved(approval_id=answered) | ElicitationResolved(elicitation_id=answered):
                self._settle(answered)
            case data if event.conversation_id == self.conversation.id:
                if self.state == "SUBMITTED":
                    self._enter("WORKING")
                if piece := self._shown.add(data):
                    self._pieces.append(piece)
                    self._tell()
            case _:
                pass

    def _settle(self, answered: str) -> None:
        if self._open.pop(answered, None) is not None and not self._open and self.state == "INPUT_REQUIRED":
            self._enter("WORKING")

    def _end(self, reply: Reply) -> None:
        if not self._pieces and reply.text:
            self._pieces.append(reply.text)
        if reply.status == "completed":
            self._history.append(_message(self, [{"text": "".join(self._pieces)}]))
            self._enter("COMPLETED")
        elif reply.status == "failed" and reply.error is not None:
            error = {"code": reply.error.code, "message": reply.error.message}
            self._enter("FAILED", [{"text": reply.error.message}, {"data": error}])
        else:
            self._enter("CANCELED")

    def fail(self, error: TertuliaError) -> None:
        """End it where it could not be followed."""
        self._enter("FAILED", [{"text": error.message}, {"data": {"code": error.code, "message": error.message}}])

    def _enter(self, state: State, parts: list[Json] | None = None) -> None:
        self.state = state
        status: Json = {"state": f"TASK_STATE_{state}", "timestamp": self._now()}
        if parts:
            status["message"] = _message(self, parts)
        self._statuses.append(status)
        self._tell()

    def _tell(self) -> None:
        before, self._news = self._news, asyncio.Event()
        before.set()


def _message(task: A2aTask, parts: list[Json]) -> Json:
    return {
        "messageId": new_item_id(),
        "contextId": task.conversation.id,
        "taskId": task.id,
        "role": "ROLE_AGENT",
        "parts": parts,
    }


def _spoken(message: MessageInput) -> Json:
    """A message of the client, for the history of its task, which is kept: without pictures, and with short texts."""
    texts = [part.text or f"[{part.media_type or 'data'}]" for part in message.parts[:_MOST_PARTS]]
    parts = [{"text": text[:_MOST_TEXT]} for text in texts]
    return {"messageId": message.message_id, "role": "ROLE_USER", "parts": parts}


def _artifact(text: str) -> Json:
    return {"artifactId": "answer", "name": "answer", "parts": [{"text": text}]}


def _approval_parts(request: ApprovalRequest) -> list[Json]:
    options = {"id": request.approval_id, "decision": ["allow", "deny"], "scope": list(request.scopes)}
    return [{"text": f"{request.title}\n\n{request.detail}"}, {"data": {"approval": {**options, "kind": request.kind}}}]


def _elicitation_parts(request: ElicitationRequest) -> list[Json]:
    text = f"The MCP server {request.server} asks: {request.message}"
    return [{"text": text}, {"data": {"elicitation": {"id": request.elicitation_id, "schema": request.schema}}}]


def _decision(question: ApprovalRequest | ElicitationRequest, message: MessageInput) -> dict[str, Any]:
    """The fields of `approval/resolve` in a message: an object with `decision`, or one word."""
    data, word = message.data, message.text.strip().lower().rstrip(".!")
    decision = data.get("decision") or ("allow" if word in _YES else "deny" if word in _NO else None)
    if isinstance(question, ElicitationRequest) and "content" in data and decision in (None, "allow"):
        return {"decision": "allow", "content": data["content"]}
    if decision not in ("allow", "deny"):
        raise InvalidParamsError('answer with one word, allow or deny, or with data: {"decision": "allow"}')
    return {"decision": decision, **{key: data[key] for key in ("scope", "ttl_s", "message") if key in data}}
