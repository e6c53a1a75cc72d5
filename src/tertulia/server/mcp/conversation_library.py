"""Conversations and agents as an MCP server offers them besides tools: resources to read and watch, and prompts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.mcp.serve.sources import PromptArgument, ServedPrompt, ServedResource
from tertulia.protocol.name_hints import name_hint
from tertulia.server.acp.session_options import SLASH_COMMANDS
from tertulia.session.handle import Conversation
from tertulia.session.session import Session

RESOURCE_PREFIX = "tertulia://conversations/"


class ConversationLibrary:
    """Implements `ResourceSource` for one session, which starts with the first request of a client."""

    template = RESOURCE_PREFIX + "{conversation_id}"

    def __init__(self, session: Callable[[], Awaitable[Session]]) -> None:
        self._session = session
        self._watchers: list[Callable[[], None]] = []
        self._followed: Session | None = None
        self._content: list[Callable[[str], None]] = []
        self._unwatch: Callable[[], None] | None = None

    async def resources(self) -> Sequence[ServedResource]:
        """The open conversations, root first."""
        session = await self._session()
        listed = [conversation.info for conversation in session.conversations()]
        return [ServedResource(RESOURCE_PREFIX + info.id, info.id, info.title) for info in listed]

    async def check(self, uri: str) -> None:
        """Refuse what is no open conversation."""
        await self._find(uri)

    async def _find(self, uri: str) -> Conversation:
        if not uri.startswith(RESOURCE_PREFIX):
            raise NotFoundError(f"there is no resource {uri[:80]!r}; addresses are {self.template}")
        session = await self._session()
        return session.conversation(uri.removeprefix(RESOURCE_PREFIX))

    async def read(self, uri: str) -> str:
        """A conversation as JSON: what `conversation/list` reports of it, and all its messages."""
        conversation = await self._find(uri)
        entries = await conversation.history()
        return msgspec.json.encode({"conversation": conversation.info, "entries": entries}).decode()

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` when a conversation is opened, closed or renamed; returns a function that ends that."""
        self._watchers.append(changed)
        return lambda: self._watchers.remove(changed)

    def watch_content(self, changed: Callable[[str], None]) -> Callable[[], None]:
        """Call `changed` with the URI of each conversation in which something is said, or that changes otherwise."""
        self._content.append(changed)
        self._watch_content()
        return lambda: self._unwatch_content(changed)

    def _watch_content(self) -> None:
        session = self._followed
        if self._content and self._unwatch is None and session is not None and not session.closed:
            self._unwatch = session.activity.watch_content(self._tell_content)

    def _unwatch_content(self, changed: Callable[[str], None]) -> None:
        self._content.remove(changed)
        if not self._content and self._unwatch is not None:
            self._unwatch()
            self._unwatch = None

    def _tell_content(self, conversation_id: str) -> None:
        for changed in list(self._content):
            changed(RESOURCE_PREFIX + conversation_id)

    def follow(self, session: Session) -> None:
        """List the conversations of this session from now on.

        Does not read its events: a session with an event reader is not closed when no client uses it.
        """
        before, self._followed = self._followed, session
        session.activity.watch_conversations(lambda: self._changed(session))
        # What was watched in the session before has ended with it.
        self._unwatch = None
        self._watch_content()
        if before is not None:
            self._changed(session)

    def _changed(self, session: Session) -> None:
        # Not for a session that closes: its conversations close with it, and may all come back when it is resumed.
        if session is self._followed and not session.closed:
            for changed in list(self._watchers):
                changed()


AGENT_PREFIX = "agent/"
_READING = ("status", "mcp", "tools", "diff")
"""The slash commands that change nothing: what they show becomes a message."""
_TASK = PromptArgument("task", "what the agent is to do", required=True)


class ConversationPrompts:
    """Implements `PromptSource`: the agents that are set up, and the slash commands that only show something."""

    def __init__(self, session: Callable[[], Awaitable[Session]], agents: Mapping[str, Any]) -> None:
        self._session = session
        self._agents = agents

    async def prompts(self) -> Sequence[ServedPrompt]:
        """The agents, then the slash commands."""
        agents = [
            ServedPrompt(AGENT_PREFIX + name, str(agent.get("description") or f"Hand a task to {name}"), (_TASK,))
            for name, agent in self._agents.items()
        ]
        return [
            *agents,
            *(ServedPrompt(name, f"What /{name} says: it {SLASH_COMMANDS[name].about}") for name in _READING),
        ]

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        """How the client's model hands the task to the agent; or what the slash command shows of the root."""
        agent = name.removeprefix(AGENT_PREFIX)
        if name.startswith(AGENT_PREFIX) and agent in self._agents:
            if not (task := arguments.get("task", "").strip()):
                raise InvalidParamsError(f"the prompt {name:.80} needs the argument `task`: what the agent is to do")
            opening = msgspec.json.encode({"agent": agent}).decode()
            return (
                f"Hand this task to the agent {agent}: call conversation_open with {opening}, then "
                "conversation_message with its conversation_id and the task as `text`, and report the answer."
                f"\n\n{task}"
            )
        if name not in _READING:
            known = [prompt.name for prompt in await self.prompts()]
            raise NotFoundError(f"there is no prompt {name[:64]!r}; {name_hint(name[:64], known)}")
        return await SLASH_COMMANDS[name].run(await self._session(), "", ())
