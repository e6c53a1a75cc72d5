"""Collects what all providers have for one agent. The only module of this stage that catches everything."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from tertulia.context.agent_meta import AgentInstanceMeta, check_agent_name
from tertulia.context.cancellable_call import call_cancellable, pending_cancellations
from tertulia.context.definitions import ToolDefinition, usage_line
from tertulia.context.provider import ContextProvider, Fragment, SessionContext
from tertulia.context.provider_answers import (
    BLOCK_PRIORITY,
    DEFAULT_TOKENS,
    PRIORITY,
    ProviderAnswers,
    count_tokens,
    fit_to_budget,
)
from tertulia.context.templates import load_template, render_template
from tertulia.context.tokens import SessionTokenStore
from tertulia.context.validation import require_line
from tertulia.errors import TertuliaError
from tertulia.events.clock import Clock, SystemClock, Timestamps
from tertulia.policy.redaction import Redactor, log_text
from tertulia.protocol.events import EventData, SessionContextReady, SessionPreparing, WarningEvent
from tertulia.protocol.ids import new_session_id
from tertulia.tools.threads import abandoned_threads

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


GROUP = "tertulia.providers"


def installed_providers() -> list[tuple[str, Callable[[], object]]]:
    """(where it comes from, what loads and makes it), by name; for `SessionContextInjector.register_each`.

    Nothing is imported yet. An entry point names a provider, or a class or function that makes one without arguments.
    """
    # Imported here: it costs more than all else that a session's start imports of the standard library.
    from importlib.metadata import entry_points

    found = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
    return [(f"entry point {entry.name!r} ({entry.value})", partial(_load, entry)) for entry in found]


def _load(entry: EntryPoint) -> object:
    loaded: object = entry.load()
    return loaded() if isinstance(loaded, type) or inspect.isroutine(loaded) else loaded


PROVIDER_TIMEOUT_S = 10.0
RETRY_AFTER_S = 1.0
"""For one that was late the last time: providers are asked before every task."""
TOOL_BLOCK = "internal-tools"
"""What the block about tools is called among the fragments; it comes from no provider."""
_MAX_REASON = 500
_CALLER = {"type": "system", "id": "SessionContextInjector"}

_log = logging.getLogger(__name__)
_SECRET_SHAPES = Redactor()


class NamedProvider(Protocol):
    """The least that a provider is: the three methods of `ContextProvider` are all optional."""

    @property
    def name(self) -> str:
        """Its name."""
        ...


class EventPublisher(Protocol):
    """Any event bus."""

    def publish(self, event: EventData, /) -> object:
        """Tell everybody."""
        ...


class SessionContextInjector:
    """Asks every provider, in the order of registration, and makes one context of their answers.

    A provider cannot keep an agent from starting: what it does wrong is logged, published as a `warning`, named in
    the context's `warnings`, and left out. `timeout_s` is for each provider, a second at most for one that was late
    the last time; `max_tokens` is for all texts together.
    """

    def __init__(
        self, *, clock: Clock | None = None, timeout_s: float = PROVIDER_TIMEOUT_S, max_tokens: int = DEFAULT_TOKENS
    ) -> None:
        self._now = Timestamps(clock or SystemClock())
        self._timeout_s = timeout_s
        self._max_tokens = max_tokens
        self._providers: dict[str, NamedProvider] = {}
        # Of each provider, the functions that were left running in their threads.
        self._left: dict[str, list[asyncio.Future[Any]]] = {}
        # Those that took too long the last time.
        self._late: set[str] = set()
        self._bus: EventPublisher | None = None
        self._tokens: SessionTokenStore | None = None

    def set_event_bus(self, event_bus: EventPublisher | None) -> None:
        """Who is told; nobody if None."""
        self._bus = event_bus

    def set_token_store(self, token_store: SessionTokenStore | None) -> None:
        """Who makes the tokens. Without one there are none, and no word of tools."""
        self._tokens = token_store

    # ── providers ────────────────────────────────────────────────────────────────────────────────────────────

    def register(self, provider: ContextProvider | NamedProvider) -> None:
        """Ask this one too. One of the same name is replaced, and the new one stands where the old one stood."""
        name = cast(object, getattr(provider, "name", None))
        self._forget(require_line("the name of a provider", name))
        self._providers[str(name)] = provider

    def register_each(self, found: Iterable[tuple[str, Callable[[], object]]]) -> list[str]:
        """Register what others have written: (where it comes from, what makes it). One that fails is left out.

        What went wrong, in one sentence each.
        """
        problems: list[str] = []
        for origin, make in found:
            try:
                self.register(cast(NamedProvider, make()))
            except (Exception, SystemExit) as error:
                problems.append(f"the provider of {origin}: {self._reason(error)}")
                _log.warning("%s\n%s", problems[-1], log_text(error))
        return problems

    def unregister(self, name: str) -> None:
        """Ask it no more. Does nothing if there is none of that name."""
        self._providers.pop(name, None)
        self._forget(name)

    def list_providers(self) -> list[str]:
        """Their names, in the order in which they are asked."""
        return list(self._providers)

    def revoke_tokens(self, agent_name: str) -> int:
        """Revoke every token of an agent; how many there were."""
        return 0 if self._tokens is None else self._tokens.revoke_by_agent(agent_name)

    # ── preparing ────────────────────────────────────────────────────────────────────────────────────────────

    async def prepare(
        self,
        agent_name: str,
        meta: AgentInstanceMeta | Mapping[str, Any],
        session_id: str | None = None,
        *,
        token_in_prompt: bool = True,
    ) -> SessionContext:
        """All that this agent is given, with a token that is valid until it is revoked.

        With `token_in_prompt=False` the block about tools does not show the token: for agents that get it, or the
        tools themselves, another way. If this raises or is cancelled, no token is left behind.
        """
        agent_name = check_agent_name(agent_name)
        described = AgentInstanceMeta.of(meta, agent_name)
        session_id = require_line("session_id", session_id or new_session_id())
        self._publish(SessionPreparing(len(self._providers), agent_name, _CALLER, self._now()))
        collected = await self._collect(agent_name, described)
        token = "" if self._tokens is None else self._tokens.generate(agent_name, session_id)
        try:
            context = self._finished(collected, token, session_id, token_in_prompt)
            counts = len(context.mcp_servers), len(context.tools), len(context.system_context_additions)
            self._publish(SessionContextReady(*counts, agent_name, _CALLER, self._now()))
        except BaseException:
            if self._tokens is not None:
                self._tokens.revoke_session(session_id)
            raise
        return context

    async def refresh(
        self,
        agent_name: str,
        meta: AgentInstanceMeta | Mapping[str, Any],
        context: SessionContext,
        *,
        token_in_prompt: bool = True,
    ) -> SessionContext:
        """The same agent between two turns: everything is asked anew, the token and the session id stay.

        Equal to the earlier context if nothing has changed. Publishes warnings only.
        """
        collected = await self._collect(check_agent_name(agent_name), AgentInstanceMeta.of(meta, agent_name))
        return self._finished(collected, context.token, context.session_id, token_in_prompt)

    def _finished(
        self, collected: ProviderAnswers, token: str, session_id: str, token_in_prompt: bool
    ) -> SessionContext:
        fragments = collected.fragments
        tools = list(collected.tools.values())
        if tools and token:
            block = tool_block(tools, token if token_in_prompt else None)
            fragments.append(Fragment(TOOL_BLOCK, block, count_tokens(block), BLOCK_PRIORITY, token_in_prompt))
        kept, cuts = fit_to_budget(fragments, self._max_tokens)
        for cut in cuts:
            part = f"the context of {cut.provider!r} was cut from {cut.before:,} to {cut.after:,} tokens"
            self._warn(collected, f"{part}: the limit is {self._max_tokens:,} for all together", "context_cut")
        return SessionContext(
            mcp_servers=list(collected.servers.values()),
            tools=tools,
            system_context_additions=[fragment.text for fragment in kept],
            token=token,
            session_id=session_id,
            fragments=tuple(kept),
            warnings=tuple(collected.warnings),
            cut=tuple(cuts),
        )

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _collect(self, agent_name: str, meta: AgentInstanceMeta) -> ProviderAnswers:
        collected = ProviderAnswers(meta)
        for name, provider in tuple(self._providers.items()):
            if self._is_stuck(name):
                # Threads are few: one that never comes back must not cost another each time.
                self._warn(collected, f"provider {name!r} is still busy with an earlier question", "provider_timeout")
                continue
            patience_s = min(self._timeout_s, RETRY_AFTER_S) if name in self._late else self._timeout_s
            self._late.discard(name)
            with abandoned_threads() as left:
                try:
                    # The outer one is for who does not stop when the inner one says so.
                    async with asyncio.timeout(patience_s * 1.1), asyncio.timeout(patience_s):
                        await self._visit(name, provider, agent_name, collected)
                except TimeoutError:
                    self._late.add(name)
                    late = f"provider {name!r} did not answer within {patience_s:g} s; what is missing is left out"
                    self._warn(collected, late, "provider_timeout")
                finally:
                    self._left.setdefault(name, []).extend(left)
        return collected

    async def _visit(self, name: str, provider: NamedProvider, agent_name: str, collected: ProviderAnswers) -> None:
        takers: tuple[tuple[str, Callable[[object], list[BaseException]]], ...] = (
            ("get_mcp_servers", collected.take_servers),
            ("get_tools", collected.take_tools),
            ("get_system_context", lambda answer: collected.take_text(answer, name, _priority(provider))),
        )
        before = pending_cancellations()
        for method, take in takers:
            try:
                problems = take(await _ask_provider(provider, method, agent_name, collected.meta))
            except (GeneratorExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                if isinstance(error, asyncio.CancelledError) and pending_cancellations() > before:
                    raise
                # Also SystemExit, and a cancellation that nobody asked for: the provider threw it by itself.
                problems = [error]
            for error in problems:
                _log.info("%s of provider %s: %s", method, name, log_text(error))
                self._warn(collected, f"{method} of provider {name!r}: {self._reason(error)}", "provider_failed")
            if pending_cancellations() > before:
                # It was told to stop and answered instead; it is not asked for more.
                raise asyncio.CancelledError

    def _forget(self, name: str) -> None:
        self._left.pop(name, None)
        self._late.discard(name)

    def _is_stuck(self, name: str) -> bool:
        left = self._left[name] = [each for each in self._left.get(name, ()) if not each.done()]
        return bool(left)

    def _warn(self, collected: ProviderAnswers, message: str, code: str) -> None:
        collected.warnings.append(message)
        _log.warning("agent %s: %s", collected.meta.name, message)
        self._publish(WarningEvent(message, code))

    def _reason(self, error: BaseException) -> str:
        # Our own errors are made to be shown. What any other says may be a secret; its type is not.
        clean = _SECRET_SHAPES if self._tokens is None else self._tokens.redactor
        said = clean.text(error.message) if isinstance(error, TertuliaError) else f"it raised {type(error).__name__}"
        return f"{said[:_MAX_REASON]}; the rest goes on without it"

    def _publish(self, event: EventData) -> None:
        if self._bus is not None:
            self._bus.publish(event)


async def _ask_provider(provider: NamedProvider, method: str, agent_name: str, meta: AgentInstanceMeta) -> object:
    function = cast("Callable[..., Any] | None", getattr(provider, method, None))
    if function is None or getattr(function, "__func__", None) is getattr(ContextProvider, method):
        return None
    return await call_cancellable(function, agent_name, meta)


def _priority(provider: NamedProvider) -> object:
    return getattr(provider, "priority", PRIORITY)


MAX_ENTRY = 4_000
"""Characters in the list, of one tool."""


def tool_block(tools: Sequence[ToolDefinition], token: str | None) -> str:
    """How to call them from a shell with the token; without one, that they can be called like any other tool."""
    listed = "\n".join(map(tool_lines, tools))
    if token is None:
        return render_template(load_template("tools-at-hand"), {"toolList": listed})
    return render_template(load_template("tool-instructions"), {"toolList": listed, "token": token})


def tool_lines(tool: ToolDefinition) -> str:
    """A tool in the list: name and description, a line that shows its arguments, then more if there is more."""
    lines = [f"- {tool.name}: {_indent(tool.description)}", f"  Usage: {tool.name} {usage_line(tool.parameters or {})}"]
    if tool.context and tool.context.strip():
        lines.append(f"  {_indent(tool.context)}")
    entry = "\n".join(lines)
    # The definition has all of it; here a long one would drive out what others have to say.
    return entry if len(entry) <= MAX_ENTRY else f"{entry[:MAX_ENTRY]}…"


def _indent(text: str) -> str:
    # A line of somebody's description must not look like the next tool.
    return "\n  ".join(line.strip() for line in text.strip().splitlines())
