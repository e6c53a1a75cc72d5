"""One session of an ACP client: a session of its own, so that none waits for another. Its root answers the prompts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tertulia.errors import BusyError, NotRunningError, TertuliaError
from tertulia.protocol.events import ConversationContextChanged, Event
from tertulia.protocol.ids import ConversationId
from tertulia.scheduler.reply import Failure
from tertulia.server.acp.approval_requests import AcpApprovalRequests
from tertulia.server.acp.content import (
    PromptBlock,
    Update,
    chunk_update,
    first_text,
    message_items,
    one_line,
    prompt_text,
    remark_update,
    text_block,
)
from tertulia.server.acp.editor import EditorCapabilities
from tertulia.server.acp.session_options import (
    SlashCommand,
    available_commands,
    config_options,
    current_mode,
    find_slash_command,
    mode_state,
)
from tertulia.server.acp.tool_calls import AcpToolCalls
from tertulia.server.acp.updates import SessionUpdates, updates_from_history
from tertulia.server.client_surface import SurfaceSession, message_to_root
from tertulia.server.jsonrpc.event_batching import Sink
from tertulia.server.jsonrpc.peer import Peer, encode_notification
from tertulia.server.surface_events import usage_fields
from tertulia.session.session import Session

MAX_TITLE = 80


class AcpSession(SurfaceSession):
    """Follows its session for the client, and takes its prompts, one at a time."""

    def __init__(
        self,
        session: Session,
        peer: Peer,
        sink: Sink,
        *,
        editor: EditorCapabilities,
        models: Sequence[str] = (),
        remarks: Iterable[str] = (),
        ran_before: bool = False,
    ) -> None:
        """`models`: to choose from. `remarks`: texts to send once, when the client knows the session. `ran_before`: for
        another client, before this one asked for it.
        """
        super().__init__(session, peer, sink)
        self._models = models
        self._remarks = list(remarks)
        self._calls = AcpToolCalls(session.root.id, self._cwd, self._label, terminal=editor.terminal_output)
        self._updates = SessionUpdates(session.root.id, self._calls)
        self._questions = AcpApprovalRequests(session, peer, editor, self._calls, self._nursery)
        self.ran_before = ran_before
        self.openings = 0
        """How many requests that open it are not answered yet."""
        self._stop: Callable[[], object] | None = None
        """Called to end the prompt that runs; None where none runs."""
        self._chosen = self._choices()

    # ── its life ─────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        """Send what had to wait until the client knew of the session, and follow it from now on."""
        self._tell({"sessionUpdate": "available_commands_update", "availableCommands": available_commands()})
        for remark in self._remarks:
            self._tell(remark_update(remark))
        self._remarks.clear()
        self.follow()

    def remark(self, text: str) -> None:
        """Add a text to send once, when the client knows the session."""
        self._remarks.append(text)

    async def retell(self) -> None:
        """Send the whole history again, as fast as the client takes it."""
        root = self.session.root
        for update in updates_from_history(root.details.items, root.id, self._calls):
            self._tell(update)
            await self._sink.drain()

    def state(self) -> dict[str, Any]:
        """What can be chosen and what is, as answers that open a session have it."""
        return {"modes": mode_state(self.session), "configOptions": self.options()}

    def options(self) -> list[dict[str, Any]]:
        """The options in the newer form only."""
        return config_options(self.session, self._models)

    # ── prompts ──────────────────────────────────────────────────────────────────────────────────────────────

    async def prompt(self, blocks: Sequence[PromptBlock]) -> dict[str, Any]:
        """Carry it out; the answer comes after everything that it caused was shown. Busy while another one runs."""
        if self._stop is not None:
            raise BusyError("this session is still answering; cancel that, or open another session", retry_after_s=1)
        command = find_slash_command(first_text(blocks)) if len(blocks) == 1 else None
        try:
            return await (self._ask(blocks) if command is None else self._run_command(*command))
        finally:
            self._stop = None

    async def steer(self, blocks: Sequence[PromptBlock]) -> bool:
        """Add a message to the prompt that runs; False where none runs."""
        words = prompt_text(blocks)
        try:
            await self.session.root.steer(words)
        except NotRunningError:
            return False
        return True

    def cancel(self) -> None:
        """Stop the prompt that runs; it is answered as cancelled. Where none runs there is nothing to do."""
        if self._stop is not None:
            self._stop()

    async def _ask(self, blocks: Sequence[PromptBlock]) -> dict[str, Any]:
        message = message_to_root(message_items(blocks))
        is_first = not self.session.root.info.message_count
        submission = self.session.root.submit(message)
        self._stop = submission.stop
        if is_first and (title := one_line(first_text(blocks))[:MAX_TITLE]):
            self._tell({"sessionUpdate": "session_info_update", "title": title})
        reply = await submission.reply()
        await self._feed.sent(reply.last_seq)
        for update in self._calls.abandon():
            self._tell(update)
        if reply.status == "failed":
            raise _task_error(reply.error)
        reason = "end_turn" if reply.status == "completed" else "cancelled"
        usage = usage_fields(reply.usage, cached="cachedReadTokens", reasoning="thoughtTokens")
        return {"stopReason": reason, "usage": usage}

    async def _run_command(self, command: SlashCommand, rest: str) -> dict[str, Any]:
        job = self._nursery.start(self._command_answer(command, rest), "a slash command")
        self._stop = job.cancel
        await asyncio.wait((job,))
        if job.cancelled():
            return {"stopReason": "cancelled"}
        text, activity = job.result(), self.session.activity
        await activity.flush()
        await self._feed.sent(activity.last_seq)
        self._tell(chunk_update("agent_message_chunk", text_block(text)))
        return {"stopReason": "end_turn"}

    async def _command_answer(self, command: SlashCommand, rest: str) -> str:
        try:
            return await command.run(self.session, rest, self._models)
        except TertuliaError as error:
            return error.message

    # ── events ───────────────────────────────────────────────────────────────────────────────────────────────

    def _messages(self, event: Event) -> list[bytes]:
        self._questions.hear(event)
        updates = self._updates.of(event)
        if isinstance(event.data, ConversationContextChanged):
            updates = [*updates, *self._changed()]
        return [self._message(update) for update in updates]

    def _changed(self) -> list[Update]:
        """Tell the client of a choice that was not made by its own request."""
        now = self._choices()
        if now == self._chosen:
            return []
        self._chosen = now
        return [
            {"sessionUpdate": "current_mode_update", "currentModeId": now[0]},
            {"sessionUpdate": "config_option_update", "configOptions": self.options()},
        ]

    def _choices(self) -> tuple[str, str]:
        return current_mode(self.session), self.session.root.details.model

    def _tell(self, update: Update) -> None:
        self._peer.notify("session/update", {"sessionId": self.session.id, "update": update})

    def _message(self, update: Update) -> bytes:
        return encode_notification("session/update", {"sessionId": self.session.id, "update": update})

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────

    def _label(self, conversation: ConversationId) -> str:
        if conversation == self.session.root.id:
            return ""
        other = self._open_conversation(conversation)
        return f"[{one_line((other and other.details.title) or conversation[:8])}] "


def _task_error(error: Failure | None) -> TertuliaError:
    failed = TertuliaError("the task failed" if error is None else error.message)
    failed.code = "internal" if error is None else error.code
    return failed
