"""Finds the conversation that a client's chat belongs to, by the history that the client sends.

A client names no conversation of its chat: it sends all that was said. Each answer is remembered under a digest of the
history that ends with it, so the next request of the same chat finds its conversation and only what is new is
submitted. A request that goes back to an earlier answer gets a fork from there, and a history that was not spoken here
a conversation that is told of it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

import msgspec

from tertulia.errors import ClosedError, InvalidParamsError, NotFoundError, TertuliaError
from tertulia.mcp.server_connection import Spawn
from tertulia.protocol.ids import ConversationId, ItemId, SessionId
from tertulia.protocol.items import AssistantMessage, UserMessage
from tertulia.protocol.name_hints import name_hint
from tertulia.server.openai.requests import ChatRequest, SpokenText
from tertulia.server.shared_session import SharedSession
from tertulia.session.handle import Conversation
from tertulia.session.host import Host
from tertulia.session.session import Session

PREFIX = "conversation:"
"""Before the name of a conversation, where clients name a model."""
MAX_CHATS = 500
"""The most conversations that are held open for this surface; beyond it the least recently used one is closed."""
MAX_ANSWERS = 20_000
"""The most answers that are remembered."""
MAX_MESSAGES = 1_000
"""The most ids of messages that are remembered."""
_EARLIER = "What was said before in this chat, in another conversation or by another model, oldest first:"


class AnswerPlace(msgspec.Struct, frozen=True):
    """Where an answer stands: the last item of a conversation when it was given."""

    session_id: SessionId
    conversation_id: ConversationId
    item_id: ItemId


class OpenChat(msgspec.Struct, frozen=True, eq=False):
    """A conversation that a request is submitted to."""

    session: Session
    conversation: Conversation


class Chats:
    """All chats of this surface."""

    def __init__(self, host: Host, spawn: Spawn, name: str = "the session of OpenAI clients") -> None:
        """`name`: of the task that starts the session of its clients."""
        self._host = host
        self._spawn = spawn
        self._shared = SharedSession(host, spawn, name)
        self._answers: OrderedDict[str, AnswerPlace] = OrderedDict()
        self._own: OrderedDict[ConversationId, OpenChat] = OrderedDict()
        """The conversations that this surface opened, the most recently used last."""
        self._by_message: OrderedDict[str, asyncio.Task[OpenChat | TertuliaError]] = OrderedDict()
        """The chats of messages that clients gave an id."""
        self._busy: set[ConversationId] = set()
        """Those that answer a request now."""

    async def models(self) -> list[str]:
        """What can be named as a model: the open conversations of clients, and the agents."""
        session = await self._shared.get()
        listed = [one for one in session.conversations() if one.id not in self._own]
        names = [one.info.title or one.id for one in listed[1:]]
        return [f"{PREFIX}root", *(f"{PREFIX}{name}" for name in names), *self._host.settings.agents]

    async def find(self, request: ChatRequest, message_id: str | None) -> OpenChat:
        """The conversation to submit what is new to; it is opened or forked where there is none.

        A message that is sent again under its id goes where it went before. NotFound for a model or a previous response
        that there is not.
        """
        if message_id is None:
            return await self._find(request)
        found = self._by_message.get(message_id)
        if found is None:
            # Noted before it is found: of two requests at once with one id the second goes where the first does.
            found = self._by_message[message_id] = self._spawn(self._found(request), "find a chat")
            found.add_done_callback(lambda done: self._drop_failed(message_id, done))
            while len(self._by_message) > MAX_MESSAGES:
                self._by_message.popitem(last=False)
        chat = await asyncio.shield(found)
        if isinstance(chat, TertuliaError):
            raise chat
        return chat

    async def _found(self, request: ChatRequest) -> OpenChat | TertuliaError:
        """Returns a refusal, which is the client's to hear: raised, it would be logged as a failure of ours."""
        try:
            return await self._find(request)
        except TertuliaError as error:
            return error

    def _drop_failed(self, message_id: str, found: asyncio.Task[OpenChat | TertuliaError]) -> None:
        """A request that was refused may be sent again under its id."""
        failed = found.cancelled() or found.exception() is not None or isinstance(found.result(), TertuliaError)
        if failed and self._by_message.get(message_id) is found:
            del self._by_message[message_id]

    async def _find(self, request: ChatRequest) -> OpenChat:
        place = self._answers.get(request.previous or _digest_history(request, request.earlier))
        if place is not None and (chat := await self._continue(place)) is not None:
            return chat
        if request.previous is not None:
            raise NotFoundError(f"there is no response {request.previous!r:.64}; send the whole history instead")
        if request.model.startswith(PREFIX):
            return await self._named_or_like_it(request)
        return await self._open_agent(request)

    @contextmanager
    def answering(self, chat: OpenChat) -> Generator[None]:
        """While it runs, another request with the same history gets a fork."""
        self._busy.add(chat.conversation.id)
        try:
            yield
        finally:
            self._busy.discard(chat.conversation.id)

    def remember(self, request: ChatRequest, chat: OpenChat, answer: str, response_id: str) -> None:
        """The answer as the client saw it: its next request of this chat has it at the end of its history."""
        last = _last_answer(chat.conversation)
        if last is None:
            return
        place = AnswerPlace(chat.session.id, chat.conversation.id, last.id)
        keys = [response_id]
        if request.previous is None:
            history = (*request.earlier, *request.new, SpokenText("assistant", answer))
            # Not of a request that named what it follows: it has only the end of what was said there.
            keys.append(_digest_history(request, history))
        for key in keys:
            self._answers[key] = place
            self._answers.move_to_end(key)
        while len(self._answers) > MAX_ANSWERS:
            self._answers.popitem(last=False)

    # ---- finding

    async def _continue(self, place: AnswerPlace) -> OpenChat | None:
        """The conversation of an answer, or a fork from it where more was said since; None where it is gone."""
        try:
            session = self._host[place.session_id]
            conversation = session.conversation(place.conversation_id)
        except (NotFoundError, ClosedError):
            return None
        last = _last_answer(conversation)
        chat = OpenChat(session, conversation)
        if last is not None and last.id == place.item_id and conversation.id not in self._busy:
            if conversation.id in self._own:
                self._own.move_to_end(conversation.id)
            return chat
        try:
            return await self._adopt(session, await conversation.fork(place.item_id))
        except NotFoundError:
            # A compaction has replaced it by notes: the history that the client sends is all there is.
            return None

    async def _named_or_like_it(self, request: ChatRequest) -> OpenChat:
        """A conversation that is named: itself, where the client's history is its own; else one with its terms."""
        chat = self._find_named(await self._shared.get(), request.model.removeprefix(PREFIX))
        if not request.instructions and _ends_with(chat.conversation, request.earlier):
            return chat
        context = await chat.conversation.context()
        texts = [context.user_instructions or "", request.instructions, _tell_earlier(request.earlier)]
        opened = await chat.session.open(
            parent_id=chat.conversation.id,
            base_instructions=context.base_instructions,
            user_instructions=_join(texts),
        )
        return await self._adopt(chat.session, opened)

    def _find_named(self, own: Session, name: str) -> OpenChat:
        sessions = [own, *(session for session in self._host.sessions if session is not own and not session.closed)]
        if name == "root":
            return OpenChat(own, own.root)
        named: list[OpenChat] = []
        for session in sessions:
            for conversation in session.conversations():
                if conversation.id == name:
                    return OpenChat(session, conversation)
                if conversation.info.title == name:
                    named.append(OpenChat(session, conversation))
        if len(named) > 1:
            ids = ", ".join(PREFIX + chat.conversation.id for chat in named[:5])
            raise InvalidParamsError(f"{len(named)} conversations are called {name!r:.64}; name one by its id: {ids}")
        if not named:
            raise NotFoundError(
                f"no open conversation has the id or the title {name!r:.64}; {PREFIX}root is always there"
            )
        return named[0]

    async def _open_agent(self, request: ChatRequest) -> OpenChat:
        agents = self._host.settings.agents
        if request.model not in agents:
            hint = name_hint(request.model[:64], [f"{PREFIX}root", *agents])
            raise NotFoundError(
                f"there is no model {request.model!r:.64}: a model is {PREFIX}NAME or the name of an agent; {hint}"
            )
        session = await self._shared.get()
        texts = [request.instructions, _tell_earlier(request.earlier)]
        opened = await session.open(agent=request.model, user_instructions=_join(texts))
        return await self._adopt(session, opened)

    async def _adopt(self, session: Session, conversation: Conversation) -> OpenChat:
        """One that this surface opened; it stays open until others were used more recently."""
        chat = self._own[conversation.id] = OpenChat(session, conversation)
        for old in list(self._own.values()):
            if len(self._own) <= MAX_CHATS:
                break
            if old.conversation.id not in self._busy and old is not chat:
                del self._own[old.conversation.id]
                if not old.session.closed:
                    await old.conversation.close()
        return chat


# ---- histories


def _digest_history(request: ChatRequest, history: Iterable[SpokenText]) -> str:
    """A key for what was said to a model under instructions. Unlike an id it begins with no letters and a dash."""
    texts = [
        request.model,
        request.thread,
        request.instructions,
        *(text for spoken in history for text in (spoken.role, spoken.text)),
    ]
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        # With its length: no two lists of texts have the same digest.
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()


def _last_answer(conversation: Conversation) -> AssistantMessage | None:
    items = conversation.details.items
    return next((item for item in reversed(items) if isinstance(item, AssistantMessage)), None)


def _ends_with(conversation: Conversation, earlier: Sequence[SpokenText]) -> bool:
    """Whether a client's history is the end of this conversation: its last answer, and what users said before."""
    if not earlier:
        return True
    last = _last_answer(conversation)
    if last is None or last.text != earlier[-1].text:
        return False
    items = conversation.details.items
    spoken = [item.text for item in items if isinstance(item, UserMessage) and not item.injected]
    users = [text.text for text in earlier if text.role == "user"]
    # One message of ours may be several of the client's.
    return "\n".join(spoken).endswith("\n".join(users))


def _tell_earlier(earlier: Sequence[SpokenText]) -> str:
    return "\n\n".join([_EARLIER, *(f"{spoken.role}: {spoken.text}" for spoken in earlier)]) if earlier else ""


def _join(texts: Iterable[str]) -> str | None:
    return "\n\n".join(text for text in texts if text) or None
