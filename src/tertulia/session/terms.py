"""Resolves the terms of conversations: what each one inherits, what it may have at most, and which wire is its own.

Decides and makes wires; it neither looks up conversations nor changes them.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict, replace

from tertulia.conversation.resolve_terms import ResolvedTerms, TermsBase, fit_restart, require_usable, resolve_terms
from tertulia.conversation.state import ConversationState
from tertulia.conversation.terms import Agent, Terms
from tertulia.conversation.toolbox import Toolbox
from tertulia.errors import InvalidParamsError
from tertulia.mcp.view import McpManager, McpView, ViewChanges
from tertulia.models.wire import Wire
from tertulia.policy.rights import Rights
from tertulia.protocol.conversation_fields import SandboxMode
from tertulia.protocol.ids import ConversationId, new_conversation_id
from tertulia.protocol.inputs import NewConversation, OpenFromPython, SetContext, check_text
from tertulia.protocol.worktree import OwnWorktree
from tertulia.scheduler.nursery import Nursery

if TYPE_CHECKING:
    from tertulia.policy.session_budget import SessionBudget
    from tertulia.session.settings.agent_table import ConfiguredAgents


class WireCache:
    """Makes wires from names and remembers them. A wire that the caller made is never closed here."""

    def __init__(self, make: Callable[[object], Wire], nursery: Nursery) -> None:
        """`make`: from `provider/model`; it gives back a Wire as it is. In the nursery wires are closed."""
        self._make = make
        self._nursery = nursery
        self._made: dict[int, tuple[Wire, str]] = {}
        self._shared: dict[str, Wire] = {}

    def __len__(self) -> int:
        return len(self._made)

    def find(self, model: object) -> Wire:
        """The wire for what people write as a model."""
        wire = self._make(model)
        # All conversations of a session share one script; a conversation that names a script gets its own.
        if isinstance(model, str) and not wire.name.startswith("scripted/"):
            self._made[id(wire)] = (wire, wire.name)
        return wire

    def shared(self, model: str) -> Wire:
        """One wire for all conversations that are answered by this model instead of their own."""
        wire = self._shared.get(model)
        if wire is None:
            wire = self._shared[model] = self.find(model)
        return wire

    def another(self, wire: Wire) -> Wire:
        """A separate wire to the same model; the same wire if it was not made here."""
        made = self._made.get(id(wire))
        return wire if made is None else self.find(made[1])

    def let_go(self, wire: Wire) -> None:
        """No conversation uses it any more: close it, if it was made here."""
        if self._made.pop(id(wire), None) is not None:
            self._nursery.start(wire.close(), f"close {wire.name}")

    def made(self) -> list[Wire]:
        """All wires that were made here and not released."""
        return [wire for wire, _ in self._made.values()]


_PLAIN = NewConversation()
_KEPT_STEPS = 16
_KEPT_DRAFTS = 63
"""Of children that were checked and never opened."""


class AgentSpecs:
    """What conversations are opened with that name a configured agent; the others are left as they are."""

    def __init__(self, find: Callable[[], ConfiguredAgents]) -> None:
        """`find`: the agents that are set up; not called where none is named."""
        self._find = find

    def opened(self, spec: NewConversation) -> NewConversation:
        """With the fields of the agent, as far as it gives none itself."""
        return self._find().opened(spec) if isinstance(spec.agent, str) else spec

    def for_child(self, spec: NewConversation) -> NewConversation:
        """The same for a child that a model opens; rights are left to `TermsResolver.under_caller`."""
        return self._find().for_child(spec) if isinstance(spec.agent, str) else spec

    def rights_of(self, name: str) -> NewConversation:
        """The rights that the agent asks for, and nothing else."""
        return self._find().rights_of(name)


class PreparedAgent(msgspec.Struct, frozen=True):
    """The agent of a conversation that is being opened."""

    id: ConversationId
    agent: Agent
    warnings: tuple[str, ...] = ()
    """What went wrong while it was prepared, and what was cut."""


class OpenTerms(msgspec.Struct, frozen=True):
    """The terms of a conversation that is being opened, and what they are narrowed to as long as it exists."""

    resolved: ResolvedTerms
    default: Terms
    """What null goes back to."""
    ceiling: Rights
    because: str


class _Draft(msgspec.Struct, frozen=True, eq=False):
    """The terms of a child that a model has asked for and that is not open yet."""

    spec: NewConversation
    """What was asked for, without base instructions."""
    caller: Terms
    default: Terms
    resolved: ResolvedTerms

    def is_for(self, spec: NewConversation, caller: Terms, default: Terms) -> bool:
        """Whether the draft was made from these; the terms are compared by identity."""
        return self.caller is caller and self.default is default and self.spec == spec


class TermsResolver:
    """Terms by the session's rules. A refusal leaves nothing behind."""

    def __init__(
        self,
        default: Terms,
        ceiling: Rights,
        *,
        wires: WireCache,
        toolbox: Toolbox,
        mcp: Callable[[], McpManager],
        skip_conflicts: bool,
        backends: Callable[[], Mapping[str, bool]],
        sandboxes: Callable[[], Mapping[str, Collection[SandboxMode]]],
        agents: Callable[[], ConfiguredAgents],
        root_agent: str | None = None,
        budget: SessionBudget | None = None,
        has_price: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`mcp`: the servers that there are at that moment. `root_agent`: the agent that the root is. The others: see
        `TermsBase`.
        """
        self.agents = AgentSpecs(agents)
        self._root_agent = root_agent
        rights, self._cuts = default.rights, ()
        if rights.on_restart != "close":
            rights, self._cuts = fit_restart(rights)
        self._default = replace(default, rights=rights) if self._cuts else default
        self.ceiling = ceiling
        self.widened: dict[str, str] = {}
        """The rights of the ceiling that a person at the terminal has widened, and at which one."""
        self._wires = wires
        self._toolbox = toolbox
        self._mcp = mcp
        self._skip_conflicts = skip_conflicts
        self._backends = backends
        self._sandboxes = sandboxes
        self._budget = budget
        self._has_price = has_price
        self._drafts: list[_Draft] = []
        self._steps: dict[tuple[int, int, int], tuple[McpView, McpView]] = {}
        """Both views are held, so that no id in a key becomes another's."""
        if budget is not None or default.fallback_models:
            require_usable(default, self._base_of(default, ceiling, "session"))

    @property
    def default(self) -> Terms:
        """The session's own terms, with the tools that the servers offer now."""
        view = self._default.context.mcp_view
        if view.seen is not (tools := self._mcp().list_tools()):
            self._default = _with_view(self._default, McpView.of(tools).with_allowlist(view.allowlist))
        return self._default

    def for_root(self) -> tuple[OpenTerms, NewConversation]:
        """The session's own terms, or those of the agent that the root is, and what was asked for.

        Two tools under one name are reported elsewhere: the root exists all the same.
        """
        if self._root_agent is None:
            resolved = ResolvedTerms(self.default, self._cuts, ())
            return OpenTerms(resolved, self.default, self.ceiling, "session"), _PLAIN
        # Its model is the session's own already.
        spec = replace(self.agents.opened(NewConversation(agent=self._root_agent)), model=UNSET)
        if spec.workspace == "worktree":
            raise InvalidParamsError(
                f'agent {self._root_agent}: workspace = "worktree" is for conversations that are opened; the root '
                "works in the session's own directory"
            )
        base = self._base_of(self.default, self.ceiling, "session")
        return OpenTerms(resolve_terms(spec, self.default, base), self.default, self.ceiling, "session"), spec

    def under_session(self, spec: NewConversation, prepared_agent: PreparedAgent | None = None) -> OpenTerms:
        """The terms of a conversation that a client opens; `prepared_agent`: its agent, where it is one."""
        if prepared_agent is None:
            return self._resolve(spec, self.default, self._base_of(self.default, self.ceiling, "session"))
        base = replace(self._base_of(self.default, self.ceiling, "session"), conversation=prepared_agent.id)
        return self._resolve(spec, self._with_agent(self.default, prepared_agent), base)

    def under_parent(
        self, spec: NewConversation, parent: ConversationState, prepared_agent: PreparedAgent | None = None
    ) -> OpenTerms:
        """The terms of one that a client opens below another: it inherits rights and directory, not instructions."""
        blank = replace(parent.terms.context, base_instructions=None, user_instructions=None)
        inherited, base = replace(_inheritable(parent.terms), context=blank), self._below(parent)
        if prepared_agent is not None:
            inherited, base = (
                self._with_agent(inherited, prepared_agent),
                replace(base, conversation=prepared_agent.id),
            )
        return self._resolve(spec, inherited, base)

    def under_caller(self, spec: NewConversation, caller: ConversationState) -> OpenTerms:
        """The terms of one that a model opens: it inherits from its caller and can only be narrower."""
        resolved, (_, base) = self._resolve_below(spec, caller), self._child_base(spec, caller)
        self._drafts = [draft for draft in self._drafts if draft.resolved is not resolved]
        terms = resolved.terms
        if spec.base_instructions is not UNSET:
            terms = replace(terms, context=replace(terms.context, base_instructions=spec.base_instructions))
        if spec.model not in (UNSET, None):
            terms = replace(terms, wire=self._wires.find(spec.model))
        return self._with_own_wire(spec, replace(resolved, terms=terms), base)

    def check_under_caller(self, spec: NewConversation, caller: ConversationState) -> Rights:
        """Raise what `under_caller` would raise, and make nothing. Returns the rights that the child would have."""
        return self._resolve_below(spec, caller).terms.rights

    def _resolve_below(self, spec: NewConversation, caller: ConversationState) -> ResolvedTerms:
        """Once for each child: a call is checked, admitted and carried out, and nothing changes meanwhile."""
        if isinstance(spec.base_instructions, str):
            check_text(spec.base_instructions, "base_instructions")
        # Without its instructions: they may come from a file that is read after the call was checked.
        plain = replace(spec, base_instructions=UNSET)
        key = plain, caller.terms, self.default
        for draft in self._drafts:
            if draft.is_for(*key):
                return draft.resolved
        limit, base = self._child_base(plain, caller)
        resolved = resolve_terms(plain, limit.terms, base)
        narrowed, warnings = (*limit.narrowed, *resolved.narrowed), (*limit.warnings, *resolved.warnings)
        resolved = self._check_tools(replace(resolved, narrowed=narrowed, warnings=warnings))
        if spec.model not in (UNSET, None):
            # Whether the model exists is known now; its own wire is made when it is opened.
            self.release(resolved.terms)
        self._drafts = [*self._drafts[-_KEPT_DRAFTS:], _Draft(*key, resolved)]
        return resolved

    def _child_base(self, spec: NewConversation, caller: ConversationState) -> tuple[ResolvedTerms, TermsBase]:
        """What a child inherits, and what it is measured against: its caller, or the agent that it is below that.

        What a model asks for beside an agent may only narrow what the agent has, not take its place.
        """
        inherited, base = ResolvedTerms(_inheritable(caller.terms), (), ()), self._below(caller)
        if not isinstance(spec.agent, str):
            return inherited, base
        limit = resolve_terms(self.agents.rights_of(spec.agent), inherited.terms, base)
        return limit, replace(base, ceiling=limit.terms.rights, because=f"agent:{spec.agent}")

    def changed(self, conversation: ConversationState, params: SetContext) -> ResolvedTerms:
        """New terms of a conversation that exists."""
        base = self._base_of(conversation.default, conversation.ceiling, conversation.because)
        current = _refreshed(conversation, self._mcp()) if params.refresh_mcp_view else conversation.terms
        return self._check_tools(resolve_terms(params, current, base))

    def copied(self, terms: Terms) -> Terms:
        """The same terms for another conversation: all but the wire."""
        own = self._wires.another(terms.wire)
        return terms if own is terms.wire else replace(terms, wire=own)

    def find_wire(self, model: object) -> Wire:
        """A wire to that model; InvalidParams where there is none."""
        return self._wires.find(model)

    def release(self, terms: Terms) -> None:
        """No conversation runs under these terms any more."""
        if terms.wire is not self._default.wire:
            self._wires.let_go(terms.wire)

    def _below(self, caller: ConversationState) -> TermsBase:
        # What is inherited is a snapshot of the caller; what null goes back to is the session's, under that ceiling.
        return self._base_of(self.default, caller.terms.rights, f"ancestor:{caller.id}")

    def _resolve(self, spec: NewConversation, inherited: Terms, base: TermsBase) -> OpenTerms:
        return self._with_own_wire(spec, self._check_tools(resolve_terms(spec, inherited, base)), base)

    def _with_own_wire(self, spec: NewConversation, resolved: ResolvedTerms, base: TermsBase) -> OpenTerms:
        if spec.model in (UNSET, None):
            resolved = replace(resolved, terms=self.copied(resolved.terms))
        return OpenTerms(resolved, base.default, base.ceiling, base.because)

    def caught_up(self, conversation: ConversationState) -> tuple[Terms, ViewChanges, tuple[str, ...]]:
        """Its terms with the current tools, for its next task; what changed; and names that two tools have now."""
        terms, old = conversation.terms, conversation.terms.context.mcp_view
        view, changed = old.refreshed(self._mcp().list_tools(conversation.id))
        if view is old:
            return terms, changed, ()
        # Conversations that had the same view share the new one.
        step = (id(old.tools), id(old.pins), id(view.seen))
        _, shared = self._steps.setdefault(step, (old, view))
        if len(self._steps) > _KEPT_STEPS:
            del self._steps[next(iter(self._steps))]
        new = _with_view(terms, shared.with_allowlist(old.allowlist))
        before = self._toolbox.offered(terms, terms.rights).conflicts
        now = self._toolbox.offered(new, new.rights).conflicts
        return new, changed, tuple(conflict for conflict in now if conflict not in before)

    def _with_agent(self, terms: Terms, prepared_agent: PreparedAgent) -> Terms:
        """The same for an agent, with the tools of servers that only it has."""
        view, tools = terms.context.mcp_view, self._mcp().list_tools(prepared_agent.id)
        seen = view if tools is view.seen else view.refreshed(tools)[0]
        return replace(_with_view(terms, seen), agent=prepared_agent.agent)

    def _base_of(self, default: Terms, ceiling: Rights, because: str) -> TermsBase:
        others = self._backends, self._sandboxes, self._mcp(), self._wires.let_go, self._budget, self._has_price
        return TermsBase(default, ceiling, because, self._wires.find, *others)

    def _check_tools(self, resolved: ResolvedTerms) -> ResolvedTerms:
        """Two tools under one name are an error, or, where so configured, a warning."""
        tools = self._toolbox.offered(resolved.terms, resolved.terms.rights)
        if self._skip_conflicts:
            return replace(resolved, warnings=resolved.warnings + tools.conflicts)
        tools.require()
        return resolved


def _inheritable(terms: Terms) -> Terms:
    """All but what belongs to one conversation alone: the agent that it is, and its Python functions."""
    return replace(terms, agent=None, functions=())


def _with_view(terms: Terms, view: McpView) -> Terms:
    return replace(terms, context=replace(terms.context, mcp_view=view))


def _refreshed(conversation: ConversationState, mcp: McpManager) -> Terms:
    view = conversation.terms.context.mcp_view
    new = McpView.new_from_manager(mcp, conversation.id).with_allowlist(view.allowlist)
    # A server that is down could not be looked at: its tools must be the same when it comes back.
    return _with_view(conversation.terms, replace(new, pins={**view.pins, **new.pins}))


def with_worktree(spec: NewConversation, worktree: OwnWorktree) -> NewConversation:
    """The same conversation, for which a worktree was made."""
    fields: dict[str, Any] = {**asdict(spec), "worktree": worktree}
    return OpenFromPython(**fields)


def new_id(spec: NewConversation) -> ConversationId:
    """The id that a conversation will have; one that has a worktree already has it from that."""
    worktree = _worktree(spec)
    return new_conversation_id() if worktree is None else worktree.conversation_id


def directory_of(spec: NewConversation, caller: Terms) -> str:
    """Where a conversation will work: in its worktree, where it asked for, or where its caller does."""
    cwd, worktree = spec.cwd if isinstance(spec.cwd, str) else caller.cwd, _worktree(spec)
    return cwd if worktree is None else worktree.place_of(os.path.realpath(cwd))


def _worktree(spec: NewConversation) -> OwnWorktree | None:
    worktree = spec.worktree if isinstance(spec, OpenFromPython) else UNSET
    return None if worktree is UNSET else worktree


def in_worktree(terms: Terms, spec: NewConversation) -> Terms:
    """The terms of a new conversation in the worktree that was made for it. InvalidParams where none was."""
    worktree = _worktree(spec)
    if worktree is not None:
        return moved(terms, worktree)
    if spec.workspace == "worktree":
        raise InvalidParamsError('workspace: "worktree" is for conv_create and for conversations that a client opens')
    return terms


def moved(terms: Terms, worktree: OwnWorktree) -> Terms:
    """The same terms at the same place of a worktree."""
    return replace(terms, worktree=worktree, cwd=worktree.place_of(os.path.realpath(terms.cwd)))
