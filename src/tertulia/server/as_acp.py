"""Tertulia as an ACP agent, for one client: ACP's methods, and the sessions that it opened.

Thin: what a method does is done by the Host, a Session and its root conversation. The SDK reads the requests; updates
are written by hand, because they are many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from acp import schema as s
from acp.meta import AGENT_METHODS
from pydantic import BaseModel, ValidationError

from tertulia.errors import InvalidParams, InvalidRequest, MethodNotFound, NotFound, NotInitialized
from tertulia.server.as_acp_abilities import Editor, own_abilities, read_editor
from tertulia.server.as_acp_choices import choose_mode, choose_model
from tertulia.server.as_acp_house import House, Opened, Wish
from tertulia.server.as_acp_servers import Given
from tertulia.server.as_acp_shelf import listed, remove
from tertulia.server.as_acp_tab import Tab
from tertulia.server.feed import Sink
from tertulia.server.peer import Answered, Peer

M = TypeVar("M", bound=BaseModel)
_GRACE_S = 1.0


class Agent:
    """One client, from its `initialize` to its end."""

    def __init__(self, house: House, sink: Sink) -> None:
        self._house = house
        self._sink = sink
        self.peer = Peer(sink, self._serve)
        self._editor: Editor | None = None
        self._tabs: dict[str, Tab] = {}

    def leave(self) -> None:
        """Nothing more comes from the client: prompts are cancelled, and questions count as answered with no."""
        self.peer.forsake()
        for tab in self._tabs.values():
            tab.cancel()

    async def close(self, timeout_s: float) -> None:
        """Close the sessions that were opened here; what still runs is answered, at most so long later."""
        self.leave()
        async with asyncio.TaskGroup() as group:
            for tab in list(self._tabs.values()):
                group.create_task(self._let_go(tab))
        await self.peer.close(timeout_s)

    async def _serve(self, method: str, params: dict[str, Any]) -> Answered:
        if method == AGENT_METHODS["initialize"]:
            return self._initialize(_read(s.InitializeRequest, params))
        if self._editor is None:
            raise NotInitialized("say `initialize` first")
        entry = _METHODS.get(method)
        if entry is None:
            raise MethodNotFound(f"there is no method {method[:64]!r}")
        return await entry.run(self, _read(entry.reads, params))

    def _initialize(self, asked: s.InitializeRequest) -> Answered:
        if self._editor is not None:
            raise InvalidRequest("this connection is initialized already")
        self._editor = read_editor(asked)
        return Answered(own_abilities())

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────────────────

    async def new(self, asked: s.NewSessionRequest) -> Answered:
        """`session/new`."""
        tab = self._add(await self._house.begin(_wish(asked.cwd, asked.additional_directories, asked.mcp_servers)))
        return Answered({"sessionId": tab.session.id, **tab.state()}, tab.begin)

    async def load(self, asked: s.LoadSessionRequest) -> Answered:
        """`session/load`: all that was said is told again, then the answer comes."""
        tab = await self._back(asked.session_id, asked)
        await tab.retell()
        return Answered(tab.state(), tab.begin)

    async def resume(self, asked: s.ResumeSessionRequest) -> Answered:
        """`session/resume`: the same, and nothing is told again."""
        tab = await self._back(asked.session_id, asked)
        return Answered(tab.state(), tab.begin)

    async def fork(self, asked: s.ForkSessionRequest) -> Answered:
        """`session/fork`."""
        wish = _wish(asked.cwd, asked.additional_directories, asked.mcp_servers)
        tab = self._add(await self._house.fork(asked.session_id, wish))
        return Answered({"sessionId": tab.session.id, **tab.state()}, tab.begin)

    async def list(self, asked: s.ListSessionsRequest) -> Answered:
        """`session/list`."""
        home = self._house.environment.home
        return Answered(await asyncio.to_thread(listed, home, asked.cwd, asked.cursor))

    async def close_session(self, asked: s.CloseSessionRequest) -> Answered:
        """`session/close`: what runs in it is stopped, and answered as cancelled."""
        await self._let_go(self._tab(asked.session_id))
        return Answered()

    async def delete(self, asked: s.DeleteSessionRequest) -> Answered:
        """`session/delete`: nothing of it is left."""
        tab = self._tabs.get(asked.session_id)
        if tab is not None:
            await self._let_go(tab)
        await asyncio.to_thread(remove, self._house.environment.home, asked.session_id)
        return Answered()

    # ── one session ──────────────────────────────────────────────────────────────────────────────────────────

    async def prompt(self, asked: s.PromptRequest) -> Answered:
        """`session/prompt`."""
        return Answered(await self._tab(asked.session_id).prompt(asked.prompt))

    async def cancel(self, asked: s.CancelNotification) -> Answered:
        """`session/cancel`."""
        self._tab(asked.session_id).cancel()
        return Answered()

    async def set_mode(self, asked: s.SetSessionModeRequest) -> Answered:
        """`session/set_mode`."""
        await choose_mode(self._tab(asked.session_id).session, asked.mode_id)
        return Answered()

    async def set_option(self, asked: s.SetSessionConfigOptionSelectRequest) -> Answered:
        """`session/set_config_option`: the mode or the model."""
        tab = self._tab(asked.session_id)
        match asked.config_id:
            case "mode":
                await choose_mode(tab.session, asked.value)
            case "model":
                await choose_model(tab.session, asked.value)
            case other:
                raise InvalidParams(f"configId must be mode or model, not {other[:64]!r}")
        return Answered({"configOptions": tab.options()})

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _back(self, session_id: str, asked: s.LoadSessionRequest | s.ResumeSessionRequest) -> Tab:
        wish = _wish(asked.cwd, asked.additional_directories, asked.mcp_servers)
        opened = await self._house.bring_back(session_id, wish)
        return self._tabs.get(session_id) or self._add(opened)

    def _add(self, opened: Opened) -> Tab:
        tab = self._tabs[opened.session.id] = Tab(
            opened.session,
            self.peer,
            self._sink,
            editor=self._editor or Editor(),
            models=self._house.models,
            remarks=opened.remarks,
        )
        return tab

    def _tab(self, session_id: str) -> Tab:
        tab = self._tabs.get(session_id)
        if tab is None:
            raise NotFound(f"session {session_id[:64]!r} is not open here; load or resume it first")
        return tab

    async def _let_go(self, tab: Tab) -> None:
        # Not for the next prompt to find while it closes.
        self._tabs.pop(tab.session.id, None)
        await self._house.host.close_session(tab.session)
        await tab.close(_GRACE_S)


async def _authenticate(agent: Agent, asked: s.AuthenticateRequest) -> Answered:
    raise InvalidParams("there is nothing to log in to: set your provider's key where the agent is started")


class _Method(msgspec.Struct, frozen=True):
    reads: type[BaseModel]
    run: Callable[[Agent, Any], Awaitable[Answered]]


_METHODS: dict[str, _Method] = {
    AGENT_METHODS["authenticate"]: _Method(s.AuthenticateRequest, _authenticate),
    AGENT_METHODS["session_new"]: _Method(s.NewSessionRequest, Agent.new),
    AGENT_METHODS["session_load"]: _Method(s.LoadSessionRequest, Agent.load),
    AGENT_METHODS["session_resume"]: _Method(s.ResumeSessionRequest, Agent.resume),
    AGENT_METHODS["session_fork"]: _Method(s.ForkSessionRequest, Agent.fork),
    AGENT_METHODS["session_list"]: _Method(s.ListSessionsRequest, Agent.list),
    AGENT_METHODS["session_close"]: _Method(s.CloseSessionRequest, Agent.close_session),
    AGENT_METHODS["session_delete"]: _Method(s.DeleteSessionRequest, Agent.delete),
    AGENT_METHODS["session_prompt"]: _Method(s.PromptRequest, Agent.prompt),
    AGENT_METHODS["session_cancel"]: _Method(s.CancelNotification, Agent.cancel),
    AGENT_METHODS["session_set_mode"]: _Method(s.SetSessionModeRequest, Agent.set_mode),
    AGENT_METHODS["session_set_config_option"]: _Method(s.SetSessionConfigOptionSelectRequest, Agent.set_option),
}
"""All that are answered, but for `initialize`."""


def _read(kind: type[M], params: dict[str, Any]) -> M:
    try:
        return kind.model_validate(params)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, wrong["loc"])) or "params"
        # No value is repeated: it may be a secret.
        raise InvalidParams(f"{where[:200]}: {wrong['msg'][:200]}") from None


def _wish(cwd: str, directories: list[str] | None, servers: list[Given] | None) -> Wish:
    return Wish(cwd, directories or (), servers or ())
