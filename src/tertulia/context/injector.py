"""Prepares an agent: asks every context provider and combines the answers into one context. The only module of this
stage that catches every exception, because providers come from other packages.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, cast

from tertulia.context.agent_meta import AgentInstanceMeta, check_agent_name
from tertulia.context.definitions import ToolDefinition, usage_line
from tertulia.context.provider import ContextProvider, Fragment, NamedProvider, SessionContext
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
from tertulia.package_loading import Plugin, PluginRegistry
from tertulia.policy.log_redaction import log_text
from tertulia.policy.redaction import Redactor
from tertulia.protocol.events import EventData, SessionContextReady, SessionPreparing, WarningEvent
from tertulia.protocol.ids import new_session_id
from tertulia.tools.threads import abandoned_threads, call_cancellable, pending_cancellations

GROUP = "tertulia.providers"


def installed_providers() -> list[tuple[str, Callable[[], object]]]:
    """(origin, function that loads and makes the provider), for `SessionContextInjector.register_each`.

    Nothing is imported yet. An entry point names a provider, or a class or function that returns one without arguments.
    """
    return [(f"entry point {plugin.origin}", partial(_made, plugin)) for plugin in PluginRegistry(GROUP).plugins()]


def _made(plugin: Plugin) -> object:
    loaded = plugin.load()
    return loaded() if isinstance(loaded, type) or inspect.isroutine(loaded) else loaded


PROVIDER_TIMEOUT_S = 10.0
RETRY_AFTER_S = 1.0
"""The time limit of a provider that was late the last time. It is short, because every task waits for its providers."""
TOOL_BLOCK = "internal-tools"
"""The name of the block about tools among the fragments; it comes from no provider."""
_MAX_REASON = 500
_CALLER = {"type": "system", "id": "SessionContextInjector"}

_log = logging.getLogger(__name__)
_SECRET_SHAPES = Redactor()


class EventPublisher(Protocol):
    """Publishes events: the event bus of a session, or an application's own."""

    def publish(self, event: EventData, /) -> object:
        """Publish an event to all subscribers."""
        ...


class SessionContextInjector:
    """Asks every provider, in the order of registration, and combines their answers into one context.

    A provider cannot keep an agent from starting: an error is logged, published as a `warning`, listed in the context's
    `warnings`, and the answer is left out. `timeout_s` is the limit of each provider (at most a second for one that was
    late the last time); `max_tokens` is the limit of all texts together.
    """

    def __init__(
        self, *, clock: Clock | None = None, timeout_s: float = PROVIDER_TIMEOUT_S, max_tokens: int = DEFAULT_TOKENS
    ) -> None:
        self._now = Timestamps(clock or SystemClock())
        self._timeout_s = timeout_s
        self._max_tokens = max_tokens
        self._providers: dict[str, NamedProvider] = {}
        # By provider, the functions that did not return in time and still run in their threads.
        self._left: dict[str, list[asyncio.Future[Any]]] = {}
        # The providers that took too long the last time.
        self._late: set[str] = set()
        self._bus: EventPublisher | None = None
        self._tokens: SessionTokenStore | None = None

    def set_event_bus(self, event_bus: EventPublisher | None) -> None:
        """Set where events are published.

        Args:
            event_bus: Anything with `publish(event)`; None: no events are published.
        """
        self._bus = event_bus

    def set_token_store(self, token_store: SessionTokenStore | None) -> None:
        """Set the store that makes the tokens. Without a store there are no tokens, and no block about tools.

        Args:
            token_store: The store; None: no tokens.
        """
        self._tokens = token_store

    # ── providers ────────────────────────────────────────────────────────────────────────────────────────────

    def register(self, provider: ContextProvider | NamedProvider) -> None:
        """Add a provider. It replaces one of the same name and keeps that one's place in the order.

        Args:
            provider: Anything with a `name` and any of the methods of `ContextProvider`.

        Raises:
            InvalidParamsError: The provider's name is not one line of text.
        """
        name = cast(object, getattr(provider, "name", None))
        self._forget(require_line("the name of a provider", name))
        self._providers[str(name)] = provider

    def register_each(self, makers: Iterable[tuple[str, Callable[[], object]]]) -> list[str]:
        """Register providers of other packages. One that fails is left out.

        Args:
            makers: For each provider its origin, for messages, and the function that makes it.

        Returns:
            One sentence for each provider that failed.
        """
        problems: list[str] = []
        for origin, make in makers:
            try:
                self.register(cast(NamedProvider, make()))
            except (Exception, SystemExit) as error:
                problems.append(f"the provider of {origin}: {self._reason(error)}")
                _log.warning("%s\n%s", problems[-1], log_text(error))
        return problems

    def unregister(self, name: str) -> None:
        """Remove a provider, if there is one of that name.

        Args:
            name: The name under which the provider was registered.
        """
        self._providers.pop(name, None)
        self._forget(name)

    def list_providers(self) -> list[str]:
        """List the providers.

        Returns:
            Their names, in the order in which they are asked.
        """
        return list(self._providers)

    def revoke_tokens(self, agent_name: str) -> int:
        """Revoke every token of an agent.

        Args:
            agent_name: The agent.

        Returns:
            How many tokens were revoked.
        """
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
        """Ask every provider what the agent gets, and make a token for the agent.

        The token is valid until it expires or is revoked. If this raises or is cancelled, no token is left behind.

        Args:
            agent_name: The agent's name.
            meta: The agent's description, or a mapping with its fields.
            session_id: The id that the token is bound to; None: a new one.
            token_in_prompt: Whether the block about tools shows the token. False for agents that get the token, or the
                tools themselves, another way.

        Returns:
            The context. Answers of providers that failed are left out, with a sentence each in its `warnings`.

        Raises:
            InvalidParamsError: The name, the description or the id cannot be used.
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
        """Ask every provider again, for an agent that was prepared before. Publishes warnings only.

        Args:
            agent_name: The agent's name.
            meta: The agent's description, or a mapping with its fields.
            context: The agent's latest context, from `prepare` or `refresh`.
            token_in_prompt: As for `prepare`.

        Returns:
            The context with the same token and session id; equal to the earlier one if nothing has changed.

        Raises:
            InvalidParamsError: The name or the description cannot be used.
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
        fitting, cuts = fit_to_budget(fragments, self._max_tokens)
        for cut in cuts:
            part = f"the context of {cut.provider!r} was cut from {cut.before:,} to {cut.after:,} tokens"
            self._warn(collected, f"{part}: the limit is {self._max_tokens:,} for all together", "context_cut")
        return SessionContext(
            mcp_servers=list(collected.servers.values()),
            tools=tools,
            system_context_additions=[fragment.text for fragment in fitting],
            token=token,
            session_id=session_id,
            fragments=tuple(fitting),
            warnings=tuple(collected.warnings),
            cut=tuple(cuts),
        )

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _collect(self, agent_name: str, meta: AgentInstanceMeta) -> ProviderAnswers:
        collected = ProviderAnswers(meta)
        for name, provider in tuple(self._providers.items()):
            if self._is_stuck(name):
                # Threads are limited: a provider that never returns must not take another one each time it is asked.
                self._warn(collected, f"provider {name!r} is still busy with an earlier question", "provider_timeout")
                continue
            patience_s = min(self._timeout_s, RETRY_AFTER_S) if name in self._late else self._timeout_s
            self._late.discard(name)
            with abandoned_threads() as left:
                try:
                    # The outer timeout is for a provider that catches the cancellation of the inner one.
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
                # Also SystemExit, and a CancelledError that the provider raised by itself.
                problems = [error]
            for error in problems:
                _log.info("%s of provider %s: %s", method, name, log_text(error))
                self._warn(collected, f"{method} of provider {name!r}: {self._reason(error)}", "provider_failed")
            if pending_cancellations() > before:
                # The provider was cancelled but returned an answer instead of stopping; ask it nothing more.
                raise asyncio.CancelledError

    def _forget(self, name: str) -> None:
        self._left.pop(name, None)
        self._late.discard(name)

    def _is_stuck(self, name: str) -> bool:
        left = self._left[name] = [future for future in self._left.get(name, ()) if not future.done()]
        return bool(left)

    def _warn(self, collected: ProviderAnswers, message: str, code: str) -> None:
        collected.warnings.append(message)
        _log.warning("agent %s: %s", collected.meta.name, message)
        self._publish(WarningEvent(message, code))

    def _reason(self, error: BaseException) -> str:
        # Our own errors can be shown. The text of any other error may hold a secret; the name of its type does not.
        clean = _SECRET_SHAPES if self._tokens is None else self._tokens.redactor
        reason = clean.text(error.message) if isinstance(error, TertuliaError) else f"it raised {type(error).__name__}"
        return f"{reason[:_MAX_REASON]}; the rest goes on without it"

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
"""The most characters that the list shows of one tool."""


def tool_block(tools: Sequence[ToolDefinition], token: str | None) -> str:
    """The text that lists the tools: how to call them from a shell with the token, or, without one, like any tool."""
    tool_list = "\n".join(map(tool_lines, tools))
    if token is None:
        return render_template(load_template("tools-at-hand"), {"toolList": tool_list})
    return render_template(load_template("tool-instructions"), {"toolList": tool_list, "token": token})


def tool_lines(tool: ToolDefinition) -> str:
    """The entry of a tool in the list: name and description, a line with its arguments, and its `context` if any."""
    lines = [f"- {tool.name}: {_indent(tool.description)}", f"  Usage: {tool.name} {usage_line(tool.parameters or {})}"]
    if tool.context and tool.context.strip():
        lines.append(f"  {_indent(tool.context)}")
    entry = "\n".join(lines)
    # The full text is in the tool's definition; a long entry here would displace other texts.
    return entry if len(entry) <= MAX_ENTRY else f"{entry[:MAX_ENTRY]}…"


def _indent(text: str) -> str:
    # A line of a description must not look like the next tool.
    return "\n  ".join(line.strip() for line in text.strip().splitlines())
