"""The hooks of one session: which are asked about a call, a task or an approval, and what their answers do.

Before a call and at an approval a hook that fails counts as a no; at other moments a warning says so and work goes on.
Each answer is an event. Nothing here can give a call more than it has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from tertulia.conversation.task_scope import TaskScope
from tertulia.errors import HookFailedError, HookRefusedError, TertuliaError
from tertulia.events.clock import Clock
from tertulia.policy.approval_policy import ApprovalPolicy
from tertulia.policy.approvals.approval_queue import ApprovalQueue, Permission, Publish
from tertulia.policy.approvals.approval_request import RequestedAction, policy_verdict, with_label
from tertulia.policy.display_text import visible
from tertulia.policy.hook_answer import HookAnswer, narrow_rights
from tertulia.policy.shell_environment import ShellEnvironment
from tertulia.protocol.events import EventData, WarningEvent
from tertulia.protocol.ids import CallId, ConversationId, new_item_id
from tertulia.protocol.items import Item, TextPart, ToolCall, ToolOutput, UserMessage
from tertulia.protocol.storage import StoragePolicy, storage_to_wire
from tertulia.protocol.tool_events import HookDecision, HookMoment
from tertulia.session.hooks.hook_runner import HookError, HookRunner, Start
from tertulia.session.hooks.hook_table import HookDefinition, hooks_from_wire
from tertulia.session.hooks.project_hook import trusted_hooks
from tertulia.session.hooks.questions import (
    approval_question,
    context_text,
    cut,
    decoded_arguments,
    result_question,
    tool_question,
    with_contexts,
)
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.settings import Settings
from tertulia.tools.dispatch import refusal
from tertulia.tools.tool import CallContext, Handoff, Outcome, Tool

CODE = "hooks"
"""The code of warnings about hooks."""
_CLOSED: frozenset[HookMoment] = frozenset({"before_tool", "approval"})
"""The moments at which a failure is a no."""


class _Verdict(msgspec.Struct, frozen=True):
    """The sum of the answers of all hooks at one moment."""

    contexts: tuple[tuple[str, str], ...] = ()
    """(the name of the hook, its text)."""
    refusal: HookRefusedError | None = None


class SessionHooks:
    """Asks the hooks, one after another in the order of the settings; the first refusal is the last question."""

    def __init__(
        self,
        hooks: Sequence[HookDefinition],
        runner: HookRunner,
        clock: Clock,
        *,
        session_id: str,
        warnings: Iterable[str] = (),
        publish: Callable[[EventData], object],
        changed: Callable[[HookDefinition], bool],
        storage_of: Callable[[ConversationId], StoragePolicy],
    ) -> None:
        """`warnings`: about hooks that are not asked; `publish` tells of them when the session begins. `changed`:
        whether a hook of a project is no longer what the user has trusted."""
        self._hooks = {moment: tuple(hook for hook in hooks if moment in hook.on) for moment in _MOMENTS}
        self._runner = runner
        self._clock = clock
        self._session_id = session_id
        self._warnings = tuple(warnings)
        self._publish = publish
        self._changed = changed
        self._storage_of = storage_of
        self._handed: dict[ConversationId, dict[CallId, ToolCall]] = {}
        """Calls that other conversations answer, until their own goes on."""

    async def follow(self) -> None:
        """Say which hooks are not asked."""
        for warning in self._warnings:
            self._publish(WarningEvent(warning, CODE))

    async def close(self, seconds: float) -> None:
        """End the programs that still run."""
        await self._runner.close()

    # ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def around(
        self,
        call: ToolCall,
        tool: Tool,
        arguments: Any,
        context: CallContext,
        run: Callable[[CallContext], Awaitable[Outcome]],
    ) -> Outcome:
        """Ask before a call, run it unless it is refused, and ask about its result."""
        verdict: _Verdict = _Verdict()
        has_fewer = False
        if self._hooks["before_tool"]:
            before = tool_question(call.name, arguments, tool.spec.source)
            verdict, narrowed = await self._before(call.name, before, context)
            has_fewer = narrowed is not context
            context = narrowed
            try:
                if verdict.refusal is not None:
                    raise verdict.refusal
                if has_fewer:
                    tool.check(arguments, context)
            except TertuliaError as error:
                return refusal(error)
        outcome = await run(context)
        if isinstance(outcome, Handoff):
            return self._hand_over(call, context, outcome, has_fewer=has_fewer)
        if self._hooks["after_tool"]:
            question = tool_question(call.name, arguments, tool.spec.source) | result_question(outcome)
            after = await self._ask("after_tool", call.name, question, context)
            if after.refusal is not None:
                return replace(refusal(after.refusal), ends_task=outcome.ends_task, storage=outcome.storage)
            verdict = replace(verdict, contexts=(*verdict.contexts, *after.contexts))
        return with_contexts(outcome, verdict.contexts)

    async def check_step(self, name: str, arguments: Any, context: CallContext) -> None:
        """Ask before what an executor is about to do through us. It takes no text, and has no rights of a call."""
        if not self._hooks["before_tool"]:
            return
        verdict, narrowed = await self._before(name, tool_question(name, arguments, "executor"), context)
        if verdict.refusal is not None:
            raise verdict.refusal
        if narrowed is not context:
            raise HookRefusedError("a hook narrows this step, and a step of an executor can only be allowed or refused")

    async def _before(self, name: str, question: dict[str, Any], context: CallContext) -> tuple[_Verdict, CallContext]:
        narrowed = context

        def take(answer: HookAnswer) -> list[str]:
            nonlocal narrowed
            rights, _ = narrow_rights(narrowed.rights, answer)
            fewer = [right for right in answer.narrow if getattr(rights, right) != getattr(narrowed.rights, right)]
            if fewer:
                narrowed = replace(narrowed, rights=rights)
            return fewer

        return await self._ask("before_tool", name, question, context, take), narrowed

    def _hand_over(self, call: ToolCall, context: CallContext, handoff: Handoff, *, has_fewer: bool) -> Outcome:
        if has_fewer:
            # The target works with the rights of its own conversation, and a handoff has had no effect yet.
            return refusal(
                HookRefusedError(
                    "a hook narrows this call, and a call that another conversation answers can only be"
                    " allowed or refused"
                )
            )
        if self._hooks["after_tool"]:
            self._handed.setdefault(context.conversation_id, {})[call.call_id] = call
        return handoff

    # ── tasks ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def task_start(self, scope: TaskScope) -> None:
        """Ask before a task's first request. HookRefusedError where it is refused: the task fails with that."""
        await self._answered(scope)
        if not self._hooks["task_start"]:
            return
        last = _newest(scope)
        message = last.text if isinstance(last, UserMessage) else None
        verdict = await self._ask("task_start", None, {"message": cut(message)}, _TaskPlace(scope))
        self._settle(scope, verdict)

    async def task_end(self, scope: TaskScope, status: str) -> None:
        """Tell the hooks that a task ends."""
        self._forget(scope)
        if self._hooks["task_end"]:
            question = {"status": status, "last_message": cut(scope.last_text)}
            await self._ask("task_end", None, question, _TaskPlace(scope))

    async def _answered(self, scope: TaskScope) -> None:
        """Ask about the answers of other conversations, which are in the history by now."""
        calls = self._handed.pop(scope.conversation.id, {})
        if not calls:
            return
        for item in scope.conversation.history.snapshot():
            if isinstance(item, ToolOutput) and (call := calls.pop(item.call_id, None)) is not None:
                question = tool_question(call.name, decoded_arguments(call), "conv") | {
                    "output": cut(item.text),
                    "success": item.success,
                }
                place = _TaskPlace(scope, call.call_id)
                self._settle(scope, await self._ask("after_tool", call.name, question, place))

    def _settle(self, scope: TaskScope, verdict: _Verdict) -> None:
        if verdict.refusal is not None:
            raise verdict.refusal
        for name, text in verdict.contexts:
            message = UserMessage(new_item_id(), (TextPart(context_text(name, text)),), injected=True)
            # Between a call and its output some models accept nothing.
            if scope.conversation.history.open_calls:
                scope.conversation.queue_input(message)
            else:
                scope.say([message])

    def _forget(self, scope: TaskScope) -> None:
        """Of a conversation that does not go on, what was handed over is not answered any more."""
        if not scope.conversation.history.open_calls:
            self._handed.pop(scope.conversation.id, None)

    # ── approvals ────────────────────────────────────────────────────────────────────────────────────────────────

    async def approval(self, request: RequestedAction, publish: Publish) -> RequestedAction:
        """Ask about what needs an approval, before a grant or a person allows it. HookRefusedError where it is refused.

        What hooks have to say stands below the question, for the person.
        """
        question = {"approval": approval_question(request)}
        place = _ApprovalPlace(request, publish, self._storage_of(request.conversation_id))
        verdict = await self._ask("approval", None, question, place)
        if verdict.refusal is not None:
            raise verdict.refusal
        lines = [with_label(f"The hook {name} says", text) for name, text in verdict.contexts]
        return replace(request, detail="\n".join([request.detail, *lines])) if lines else request

    def queue(self, clock: Clock, **options: Any) -> ApprovalQueue:
        """A queue of approvals, whose requests hooks see where there are hooks for that."""
        return (
            HookedApprovalQueue(self, clock, **options) if self._hooks["approval"] else ApprovalQueue(clock, **options)
        )

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def _ask(
        self,
        moment: HookMoment,
        tool: str | None,
        question: Mapping[str, Any],
        place: CallContext | _TaskPlace | _ApprovalPlace,
        take: Callable[[HookAnswer], list[str]] = lambda answer: [],
    ) -> _Verdict:
        contexts: list[tuple[str, str]] = []
        for hook in self._hooks[moment]:
            if tool is not None and not hook.wants_tool(tool):
                continue
            whole = {"hook": hook.name, "moment": moment, **self._where(place), **question}
            began = self._clock.monotonic()
            answer, failure = await self._answer(hook, moment, whole)
            refuses = answer.decision == "refuse" or (failure is not None and moment in _CLOSED)
            place.publish(
                HookDecision(
                    hook.name,
                    moment,
                    "refuse" if refuses else "continue",
                    round((self._clock.monotonic() - began) * 1000),
                    failed=failure is not None,
                    reason=failure or answer.reason,
                    context=answer.context,
                    narrowed=tuple(take(answer)),
                    call_id=place.call_id,
                )
            )
            if failure is not None and not refuses:
                place.publish(WarningEvent(f"the hook {hook.name} {failure}", CODE))
            if refuses:
                return _Verdict(tuple(contexts), _refused(hook.name, answer.reason, failure))
            if answer.context is not None:
                contexts.append((hook.name, answer.context))
        return _Verdict(tuple(contexts))

    async def _answer(
        self, hook: HookDefinition, moment: HookMoment, question: Mapping[str, Any]
    ) -> tuple[HookAnswer, str | None]:
        if self._changed(hook):
            return HookAnswer(), "is not what you have trusted any more; `tertulia hooks trust` shows it as it is now"
        try:
            return await self._runner.ask(hook, moment, question), None
        except HookError as error:
            return HookAnswer(), str(error)

    def _where(self, place: CallContext | _TaskPlace | _ApprovalPlace) -> dict[str, Any]:
        return {
            "session_id": self._session_id,
            "conversation_id": place.conversation_id,
            "task_id": place.task_id,
            "call_id": place.call_id,
            "cwd": place.cwd,
            "storage_policy": storage_to_wire(
                place.rights.storage_policy if isinstance(place, CallContext) else place.storage
            ),
        }


_MOMENTS: tuple[HookMoment, ...] = ("before_tool", "after_tool", "task_start", "task_end", "approval")


def _newest(scope: TaskScope) -> Item | None:
    segments = scope.conversation.history.snapshot().newest_first()
    return next((item for segment in segments for item in reversed(segment.items)), None)


class _TaskPlace:
    """Where a task is asked about."""

    def __init__(self, scope: TaskScope, call_id: CallId | None = None) -> None:
        self.conversation_id, self.task_id, self.call_id = scope.conversation.id, scope.task_id, call_id
        self.cwd, self.storage, self.publish = scope.conversation.terms.cwd, scope.storage(), scope.publish


class _ApprovalPlace:
    """Where an approval is asked about."""

    def __init__(self, request: RequestedAction, publish: Publish, storage: StoragePolicy) -> None:
        self.conversation_id, self.task_id, self.call_id = request.conversation_id, None, request.call_id
        self.cwd, self.storage, self.publish = request.parts.cwd, storage, publish


def open_hooks(
    settings: Settings,
    environment: Environment,
    clock: Clock,
    *,
    session_id: str,
    start: Start,
    publish: Callable[[EventData], object],
    storage_of: Callable[[ConversationId], StoragePolicy],
) -> SessionHooks:
    """The hooks that the settings and trusted files of the project define."""
    usable, warnings = trusted_hooks(settings.project_hooks, settings.hooks, environment.home)
    projects = {definition.name: (hook, hook.digest) for hook, definition in usable}

    def changed(hook: HookDefinition) -> bool:
        if hook.folder is None:
            return False
        project, digest = projects[hook.name]
        return project.digest != digest

    # As programs that the user starts: with their display and session bus, and without keys.
    variables = ShellEnvironment(inherit="all").build(environment.variables)
    return SessionHooks(
        (*hooks_from_wire(settings.hooks), *(definition for _, definition in usable)),
        HookRunner(clock, start, variables, str(environment.user_home)),
        clock,
        session_id=session_id,
        warnings=warnings,
        publish=publish,
        changed=changed,
        storage_of=storage_of,
    )


class HookedApprovalQueue(ApprovalQueue):
    """A queue whose requests hooks see before a grant or a person allows them."""

    __slots__ = ("_hooks",)

    def __init__(self, hooks: SessionHooks, clock: Clock, **options: Any) -> None:
        super().__init__(clock, **options)
        self._hooks = hooks

    async def ask(
        self, request: RequestedAction, policy: ApprovalPolicy, publish: Publish, *, known_safe: bool = False
    ) -> Permission:
        """As the base class; a hook may refuse first."""
        if policy_verdict(policy, request.kind, known_safe=known_safe) == "ask":
            request = await self._hooks.approval(request, publish)
        return await super().ask(request, policy, publish, known_safe=known_safe)


def _refused(name: str, reason: str | None, failure: str | None) -> HookRefusedError:
    if failure is not None:
        return HookFailedError(f"the hook {name} {visible(failure)}; without its answer this is not done", hook=name)
    because = f": {visible(reason)}" if reason else ""
    return HookRefusedError(f"the hook {name} refuses this{because}", hook=name)
