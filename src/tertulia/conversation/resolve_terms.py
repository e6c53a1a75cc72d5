"""Resolves the terms of a conversation: parses a request, narrows it to what is allowed, and reports what was narrowed.

Absent keeps, null goes back to the default. Nothing here has a side effect: a refusal leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from tertulia.conversation.terms import NATIVE, ConversationContext, Terms, tool_preferences
from tertulia.errors import InvalidParamsError, TertuliaError
from tertulia.mcp.view import McpManager, McpView, NoServers, parse_allowlist
from tertulia.models.catalog import fallback_models_from_wire
from tertulia.models.choice import NO_MODEL
from tertulia.models.wire import ChecksSettings, ModelSettings, Wire
from tertulia.policy.host_rules import HostRules
from tertulia.policy.limits import limits_from_wire
from tertulia.policy.rights import Narrowing, Rights, narrow, parse_right
from tertulia.protocol.conversation_fields import PREFERENCES, RIGHT_FIELDS, SandboxMode, sandbox_to_wire
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.inputs import ChangeFromPython, ContextFields, OpenFromPython, check_text
from tertulia.protocol.name_hints import name_hint
from tertulia.rollout.store import allows_body
from tertulia.tools.tool import Tool

if TYPE_CHECKING:
    from tertulia.policy.session_budget import SessionBudget

_RIGHTS = {right: row.name for right, row in RIGHT_FIELDS.items() if row.doc is not None}
"""The rights that a conversation can ask for, each with the field it does so by."""

_MAX_PATH = 4_096
"""No Linux path is longer; the text is repeated in every environment message."""


_ONLY_NATIVE: Mapping[str, bool] = MappingProxyType({NATIVE: True})
_NO_SANDBOXES: Mapping[str, Collection[SandboxMode]] = MappingProxyType({})


class TermsBase(msgspec.Struct, frozen=True):
    """What new terms are measured against."""

    default: Terms
    """What null goes back to: the session's default, or for a child its caller's terms."""
    ceiling: Rights
    """Fixed when the conversation is made; nothing rises above it."""
    because: str
    """Who set the ceiling: `session`, `ancestor:ID` or `agent:NAME`."""
    find_wire: Callable[[object], Wire]
    """From `provider/model` or a Wire; refuses an unknown provider."""
    backends: Callable[[], Mapping[str, bool]] = _ONLY_NATIVE.copy
    """Who can do its tasks, and whether each can ask a person. Not called where only `native` is named."""
    sandboxes: Callable[[], Mapping[str, Collection[SandboxMode]]] = _NO_SANDBOXES.copy
    """Of executors: the modes that each can be held to. One that is not listed has no sandbox of its own to set."""
    mcp: McpManager = NoServers()
    """Which tools a name of the allowlist may mean, besides those in the view."""
    let_go: Callable[[Wire], object] = lambda _: None
    """Called with a wire that was found and that no conversation will use."""
    budget: SessionBudget | None = None
    """What the session may use; None: that is not limited."""
    has_price: Callable[[str], bool] = lambda _: False
    """Whether the price of `provider/model` is known."""
    conversation: ConversationId | None = None
    """The conversation, where it may have servers of its own."""


class ResolvedTerms(msgspec.Struct, frozen=True):
    """New terms, what was narrowed, and warnings."""

    terms: Terms
    narrowed: tuple[Narrowing, ...]
    warnings: tuple[str, ...]


def resolve_terms(request: ContextFields, current: Terms, base: TermsBase) -> ResolvedTerms:
    """The terms that follow from `current` when `request` is granted as far as the ceiling allows."""
    default, context = base.default, current.context
    fields, warnings = _parse_rights(request, current, base)
    preferences = {name: _preference(name, request, current, default) for name in PREFERENCES}
    rights, narrowed = narrow(fields, current.rights, base.ceiling, base.because)
    if any(getattr(request, name) not in (UNSET, None) for name in ("on_restart", "storage_policy")):
        rights, narrowed = fit_restart(rights, narrowed)
    instructions = _text(request.base_instructions, context.base_instructions, "base_instructions")
    user = _text(request.user_instructions, context.user_instructions, "user_instructions")
    backend, cwd = _backend(request.backend, current, base), _cwd(request.cwd, current, default)
    _check_asking(backend, rights, base)
    _check_hosts(backend, rights, base)
    warnings.extend(_sandbox_warnings(backend, rights, base))
    # Last, because only this step may create something, which a later refusal would have to release.
    wire = _wire(request.model, current, base)
    try:
        warnings.extend(_fit_settings(preferences, request, wire, backend))
        warnings.extend(_fit_budget(wire, backend, current, base))
        settings = ModelSettings(**{name: preferences[name] for name in ModelSettings.__struct_fields__})
        fallbacks, left_out = _fallback_models(request, wire, backend, settings, current, base)
        warnings.extend(left_out)
    except InvalidParamsError:
        if wire is not current.wire and wire is not default.wire:
            base.let_go(wire)
        raise
    tools = tool_preferences(rights, wire, preferences["shell_mode"], preferences["tool_profile"])
    context = ConversationContext(instructions, user, _view(context.mcp_view, rights), tools)
    held = {
        "agent": current.agent,
        "fallback_models": fallbacks,
        "functions": _functions(request, current),
        "surroundings": current.surroundings if cwd == current.cwd else None,
        "unattended": current.unattended,
        "worktree": current.worktree,
    }
    terms = Terms(context, rights, wire, backend, cwd, **held, **preferences)
    return ResolvedTerms(terms, tuple(_narrowed_as_asked(narrowed, request)), tuple(warnings))


def fit_restart(rights: Rights, narrowed: tuple[Narrowing, ...] = ()) -> tuple[Rights, tuple[Narrowing, ...]]:
    """What keeps no texts cannot go on after a crash: the rights without that, and what was cut, that included."""
    if rights.on_restart == "close" or allows_body(rights.storage_policy):
        return rights, narrowed
    cut = Narrowing("on_restart", "continue", "close", "storage_policy")
    return replace(rights, on_restart="close"), (*narrowed, cut)


def _fit_settings(preferences: dict[str, Any], request: ContextFields, wire: Wire, backend: str) -> Iterator[str]:
    """Refuse requested settings that the model does not support; drop inherited ones with a warning."""
    named = [name for name in ModelSettings.__struct_fields__ if getattr(request, name) not in (UNSET, None)]
    if backend != NATIVE:
        if named:
            raise InvalidParamsError(
                f"{named[0]}: backend {backend} is told nothing of it; set it up in its own settings"
            )
        return
    if not isinstance(wire, ChecksSettings):
        return
    fitting = ModelSettings(**{name: preferences[name] for name in named})
    wire.check_settings(fitting)
    for name in ModelSettings.__struct_fields__:
        if name in named or preferences[name] is None:
            continue
        more = replace(fitting, **{name: preferences[name]})
        try:
            wire.check_settings(more)
            fitting = more
        except InvalidParamsError as error:
            preferences[name] = None
            yield f"{error.message} (it was inherited, and is left out)"


def _fallback_models(
    request: ContextFields, wire: Wire, backend: str, settings: ModelSettings, current: Terms, base: TermsBase
) -> tuple[tuple[str, ...], list[str]]:
    """Refuse requested ones that could not answer; leave out inherited ones, with warnings."""
    requested = request.fallback_models
    if not isinstance(requested, list | tuple):
        names = (base.default if requested is None else current).fallback_models
        if backend != NATIVE or (wire is current.wire and settings == current.model_settings):
            return names, []
        problems = {name: _fallback_problem(name, wire, settings, base) for name in names}
        usable = tuple(name for name, problem in problems.items() if problem is None)
        unusable = [problem for problem in problems.values() if problem is not None]
        return usable, [f"fallback_models: {problem} (it was inherited, and is left out)" for problem in unusable]
    names = fallback_models_from_wire(requested)
    if backend != NATIVE and names:
        raise InvalidParamsError(f"fallback_models: backend {backend} asks models itself; use its own settings")
    for name in names:
        if (problem := _fallback_problem(name, wire, settings, base)) is not None:
            raise InvalidParamsError(f"fallback_models: {problem}")
    return names, []


def require_usable(terms: Terms, base: TermsBase) -> None:
    """Raise InvalidParams where the session's own terms name models that could not be asked."""
    if base.budget is not None and terms.wire.name != NO_MODEL:
        base.budget.require_price(terms.wire.name, is_known=base.has_price(terms.wire.name))
    for name in terms.fallback_models:
        if (problem := _fallback_problem(name, terms.wire, terms.model_settings, base)) is not None:
            raise InvalidParamsError(f"fallback_models: {problem}")


def _fallback_problem(name: str, wire: Wire, settings: ModelSettings, base: TermsBase) -> str | None:
    """Why a model cannot answer instead of `wire` with these settings; None where it can. Holds nothing of it."""
    if name == wire.name:
        return f"{name} is the model itself; name another one"
    try:
        other = base.find_wire(name)
        try:
            if isinstance(other, ChecksSettings):
                other.check_settings(settings)
            if base.budget is not None:
                base.budget.require_price(other.name, is_known=base.has_price(other.name))
        finally:
            base.let_go(other)
    except TertuliaError as error:
        return error.message
    return None


def _fit_budget(wire: Wire, backend: str, current: Terms, base: TermsBase) -> Iterator[str]:
    """Refuse what cannot be counted in money where money is limited; say what is counted of another program."""
    if base.budget is None:
        return
    if backend == NATIVE:
        base.budget.require_price(wire.name, is_known=wire.name == NO_MODEL or base.has_price(wire.name))
    elif (notice := base.budget.backend_notice(backend)) is not None and backend != current.backend:
        yield notice


def _narrowed_as_asked(narrowed: Iterable[Narrowing], request: ContextFields) -> Iterator[Narrowing]:
    """What was cut off, as it was asked for: rights know of a shell only whether there is one. A reset asks nothing."""
    for cut in narrowed:
        value = getattr(request, cut.field)
        if value is not None:
            yield replace(cut, asked=value) if cut.field in PREFERENCES else cut


def _parse_rights(request: ContextFields, current: Terms, base: TermsBase) -> tuple[dict[str, Any], list[str]]:
    fields: dict[str, Any] = {}
    warnings: list[str] = []
    for right, name in _RIGHTS.items():
        value = getattr(request, name)
        if value is UNSET:
            continue
        if value is None:
            fields[right] = getattr(base.default.rights, right)
        elif name == "limits":
            fields[right] = limits_from_wire(value, current.rights.limits)
        elif name == "mcp_tool_allowlist":
            tools = (*current.context.mcp_view.tools, *base.mcp.list_tools(base.conversation))
            fields[right], list_warnings = parse_allowlist(value, tools, base.mcp.absent())
            warnings.extend(list_warnings)
        else:
            fields[right] = parse_right(right, value)
    return fields, warnings


def _preference(name: str, request: ContextFields, current: Terms, default: Terms) -> Any:
    value = getattr(request, name)
    if value is UNSET or value is None:
        return getattr(default if value is None else current, name)
    return PREFERENCES[name].parse(value)


def _text(requested: Any, current: str | None, field: str) -> str | None:
    match requested:
        case msgspec.UNSET:
            return current
        case None:
            return None
        case _:
            return check_text(requested, field)


def _functions(request: ContextFields, current: Terms) -> tuple[Tool, ...]:
    match request:
        case OpenFromPython(functions=tuple() as functions) | ChangeFromPython(functions=tuple() as functions):
            return functions
        case OpenFromPython(functions=None) | ChangeFromPython(functions=None):
            return ()
        case _:
            return current.functions


def _view(view: McpView, rights: Rights) -> McpView:
    return view if view.allowlist == rights.mcp_tool_allowlist else view.with_allowlist(rights.mcp_tool_allowlist)


def _wire(requested: object, current: Terms, base: TermsBase) -> Wire:
    if requested is UNSET:
        return current.wire
    return base.default.wire if requested is None else base.find_wire(requested)


def _backend(requested: object, current: Terms, base: TermsBase) -> str:
    if requested is UNSET:
        return current.backend
    if requested is None:
        return base.default.backend
    if requested != NATIVE and requested not in (backends := base.backends()):
        raise InvalidParamsError(f"backend {requested!r:.80} is unknown; {name_hint(str(requested), backends)}")
    return cast(str, requested)


def _check_asking(backend: str, rights: Rights, base: TermsBase) -> None:
    # One that does not exist any more is refused when it gets a task.
    if backend != NATIVE and rights.approval_policy.needs_asking and not base.backends().get(backend, True):
        raise InvalidParamsError(
            f"backend {backend} cannot ask a person, and this approval policy needs that; use on-request or never"
        )


def _check_hosts(backend: str, rights: Rights, base: TermsBase) -> None:
    # One of an installed package is given the rights and holds them itself.
    if backend != NATIVE and isinstance(rights.network, HostRules) and backend in base.sandboxes():
        from tertulia.executors.command.command_line import check_hosts

        check_hosts(f"backend {backend}", rights)


def _sandbox_warnings(backend: str, rights: Rights, base: TermsBase) -> Iterator[str]:
    """A warning, not a refusal: the mode may change before the first task, which would be refused otherwise."""
    modes, mode = None if backend == NATIVE else base.sandboxes().get(backend), rights.sandbox
    if modes is not None and mode not in modes and mode != "danger_full_access":
        yield (
            f"backend {backend} does not say how it is held to the sandbox mode {sandbox_to_wire(mode)}: its tasks "
            "will be refused; set that mode in the table `sandbox` of its configuration, or use danger-full-access"
        )


def _cwd(requested: Any, current: Terms, default: Terms) -> str:
    match requested:
        case msgspec.UNSET:
            return current.cwd
        case None:
            return default.cwd if current.worktree is None else current.worktree.place_of(default.cwd)
        case _:
            path = check_text(requested, "cwd")
            if not path.startswith("/") or "\0" in path or len(path) > _MAX_PATH:
                raise InvalidParamsError(
                    f"cwd must be an absolute path of at most {_MAX_PATH:,} characters, not {path!r:.80}"
                )
            return path if current.worktree is None else current.worktree.place_of(path)
