"""How conversations, tools and tasks are shown: one rendering for Python, JSON-RPC, the command line and the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec
from msgspec.structs import asdict

from tertulia.context.provider_answers import count_tokens
from tertulia.conversation.resolve_terms import ResolvedTerms
from tertulia.conversation.state import ConversationState
from tertulia.conversation.terms import NATIVE
from tertulia.errors import NotFoundError
from tertulia.policy.rights import Rights, to_wire
from tertulia.prompt.request import builtin_text, cache_key, full_instructions, instruction_parts
from tertulia.prompt.tool_list import OfferedTools
from tertulia.protocol.ids import TaskId
from tertulia.protocol.items import AssistantMessage, ImagePart, Item, UserMessage
from tertulia.protocol.storage import Full, StoragePolicy, Ttl, storage_to_wire
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.protocol.worktree import OwnWorktree
from tertulia.sandbox.runner import TierName
from tertulia.session.answers import (
    CheckpointStatus,
    ContextInfo,
    ConversationInfo,
    HistoryEntry,
    OpenAnswer,
    SessionInfo,
    TaskInfo,
    ToolInfo,
)
from tertulia.session.parts import SessionParts
from tertulia.session.settings.checkpoint_table import checkpoints_from_wire
from tertulia.session.views import refresh_when_shown
from tertulia.version import __version__

if TYPE_CHECKING:
    from tertulia.context.providers.skills import SkillFolder


def not_held(parts: SessionParts) -> list[str]:
    """What the sandbox tier of commands, and that of every executor in use, cannot prevent."""
    rights = parts.settings.rights
    sentences = list(parts.command_services.sandbox.not_covered)
    if rights.sandbox == "danger_full_access":
        sentences.append("a conversation in danger-full-access is not confined: its commands may do what the user may")
    for backend in sorted({state.terms.backend for state in parts.conversations} - {NATIVE}):
        sentences += _not_held_by_backend(backend, parts)
    return sentences


def _not_held_by_backend(backend: str, parts: SessionParts) -> Iterator[str]:
    yield (
        f"{backend} runs in its own sandbox, with its own home and login: masks, protected names and startup files "
        "hold for what it does through Tertulia, and not for what its own commands read and write"
    )
    if parts.settings.allow_home_workspace:
        yield (
            f"{backend} may write whatever lies in the workspace, which is allowed to be the user's home: startup "
            "files, keys and Tertulia's own settings are not kept from it"
        )


PROTOCOL_VERSION = "1"

_ALWAYS = ("approvals", "canvas", "delegation", "elicitations", "fork", "replay", "resume", "storage_policies")


def capabilities() -> dict[str, bool]:
    """What a client may rely on, whatever the version. A name that is missing means no."""
    # Imported here: it takes as long as ten modules of ours.
    from importlib.util import find_spec

    return {**dict.fromkeys(_ALWAYS, True), "mcp": find_spec("mcp") is not None}


def policy(rights: Rights) -> dict[str, Any]:
    """The four most important settings, as words."""
    return {
        "approval": to_wire("approval_policy", rights.approval_policy),
        "sandbox": to_wire("sandbox", rights.sandbox),
        # A word: the hosts themselves are texts of people, which a record may have to leave out.
        "network": rights.network if isinstance(rights.network, bool) else "hosts",
        "storage": to_wire("storage_policy", rights.storage_policy),
    }


def session(parts: SessionParts) -> SessionInfo:
    """What `session/info` says of a session."""
    root = parts.conversations.root
    return SessionInfo(
        session_id=parts.session_id,
        root_conversation_id=root.id,
        protocol_version=PROTOCOL_VERSION,
        version=__version__,
        policy=policy(parts.settings.rights),
        model=root.terms.wire.name,
        mcp=servers(parts),
        not_held=not_held(parts),
        sandbox_tier=_sandbox_tier(parts),
        checkpoints=_checkpoint_status(parts),
    )


def _checkpoint_status(parts: SessionParts) -> CheckpointStatus:
    storage, reason = parts.settings.rights.storage_policy, parts.no_checkpoints
    in_memory = not isinstance(storage, Full | Ttl)
    if reason is None and in_memory and not checkpoints_from_wire(parts.settings.checkpoints).in_memory:
        reason = f"storage_policy {storage_to_wire(storage)!r} keeps none; see checkpoints.in_memory"
    return CheckpointStatus(reason is None, reason, in_memory and reason is None)


def _sandbox_tier(parts: SessionParts) -> TierName | None:
    if parts.settings.rights.sandbox == "danger_full_access":
        return "none"
    return parts.command_services.sandbox.expected_tier


def servers(parts: SessionParts) -> list[dict[str, Any]]:
    """The MCP servers, by name; facts that are not known are left out."""
    reports = () if parts.made.servers is None else parts.made.servers.reports()
    return [{k: v for k, v in asdict(report).items() if v is not None} for report in reports]


def conversation(parts: SessionParts, state: ConversationState) -> ConversationInfo:
    """One line of a list."""
    return ConversationInfo(
        id=state.id,
        parent_id=state.parent_id,
        title=state.title,
        status=cast(Any, state.status),
        depth=state.depth,
        message_count=state.history.totals.message_count,
        last_active_at=parts.timestamps.at(state.last_active),
        model=state.terms.wire.name,
        backend=state.terms.backend,
    )


def history(state: ConversationState, limit: int | None) -> list[HistoryEntry]:
    """The messages of a history: no tool calls, no reasoning, no injected messages."""
    return [history_entry(item) for item in state.history.messages(limit)]


def history_entry(item: UserMessage | AssistantMessage) -> HistoryEntry:
    """One message of a history."""
    pictures = [part.image_url for part in item.parts if isinstance(part, ImagePart)]
    return HistoryEntry(
        role="user" if isinstance(item, UserMessage) else "assistant",
        attachments=[{"type": "image", "image_url": url} for url in pictures],
        text=item.text or None,
    )


def tools(parts: SessionParts, state: ConversationState) -> tuple[list[ToolInfo], str]:
    """The tools that are offered, and the cache key of a request made now."""
    refresh_when_shown(parts, state)
    offered = parts.toolbox.offered(state.terms, state.terms.rights, merging=bool(state.worktree_children))
    listed = [ToolInfo(spec.name, spec.source, spec.digest, spec.server) for spec in offered.specs]
    return listed, _cache_key(state, offered)


def context(parts: SessionParts, state: ConversationState) -> ContextInfo:
    """What `conversation/context` says of a conversation."""
    refresh_when_shown(parts, state)
    terms, rights = state.terms, state.terms.rights
    offered = parts.toolbox.offered(terms, rights, merging=bool(state.worktree_children))
    prefix = len(_instructions(state, offered).encode()) + len(offered.encoded(terms.wire.dialect))
    prefs = terms.context.tools_prefs
    return ContextInfo(
        base_instructions=terms.context.base_instructions,
        user_instructions=terms.context.user_instructions,
        additions=[] if terms.agent is None else [asdict(addition) for addition in terms.agent.additions],
        policy=policy(rights),
        narrowed=list(parts.conversations.narrowed(state)),
        tools_prefs={name: getattr(prefs, name) for name in prefs.__struct_fields__},
        mcp_tool_allowlist=to_wire("mcp_tool_allowlist", rights.mcp_tool_allowlist),
        model=terms.wire.name,
        storage_policy=to_wire("storage_policy", rights.storage_policy),
        limits=to_wire("limits", rights.limits),
        prompt_tokens=state.history.approx_tokens + prefix // 4,
        cache_key=_cache_key(state, offered),
        fallback_models=list(terms.fallback_models),
    )


def open_answer(parts: SessionParts, state: ConversationState, resolved: ResolvedTerms) -> OpenAnswer:
    """What `conversation/open` and `conversation/set_context` answer."""
    cuts, own = (list(resolved.narrowed), list(resolved.warnings)), state.terms.worktree
    return OpenAnswer(state.id, context(parts, state), *cuts, None if own is None else own.beginning(state.id))


def tasks(parts: SessionParts) -> list[TaskInfo]:
    """What runs, then what waits, the next one first. With one slot targets show when they run."""
    tasks, scheduler = parts.registry.running(), parts.scheduler
    running = [TaskInfo(t.task_id, t.conversation_id, t.kind, "running", t.started_at, list(t.chain)) for t in tasks]
    begun = scheduler.active if scheduler.slots > 1 else ()
    branches = (branch for chain in (*begun, *scheduler.queued()) for branch in chain.not_begun)
    waiting = ((branch.plan, [*branch.callers, branch.conversation_id]) for branch in branches)
    return running + [TaskInfo(p.task_id, p.conversation_id, p.kind, "queued", None, path) for p, path in waiting]


def task(parts: SessionParts, task_id: str) -> TaskInfo:
    """A task that runs, waits or has ended lately; NotFound."""
    for info in tasks(parts):
        if info.task_id == task_id:
            return info
    chain = parts.scheduler.find(TaskId(task_id))
    if chain is None:
        raise NotFoundError(f"task not found: {task_id[:64]!r}")
    if not chain.answer.done():
        # It was replaced, and what it caused goes on.
        return TaskInfo(chain.task_id, chain.conversation_id, "user", "running", chain.started_at, list(chain.members))
    reply = chain.answer.result()
    ended = (chain.task_id, chain.conversation_id, "user", reply.status, chain.started_at, [chain.conversation_id])
    return TaskInfo(*ended, last_assistant_message=reply.text, worktree=reply.worktree)


def _instructions(state: ConversationState, offered: OfferedTools) -> str:
    terms = state.terms
    return full_instructions(terms.context.base_instructions, offered.names, terms.wire.family)


def _cache_key(state: ConversationState, offered: OfferedTools) -> str:
    return cache_key(_instructions(state, offered), offered.digest, state.terms.wire.family)


class ConversationDetails:
    """What a surface shows of an open conversation besides its `ConversationInfo`. Reads what holds now."""

    __slots__ = ("_parts", "_state")

    def __init__(self, parts: SessionParts, state: ConversationState) -> None:
        self._parts = parts
        self._state = state

    @property
    def title(self) -> str | None:
        """Its title, if it has one."""
        return self._state.title

    @property
    def model(self) -> str:
        """Its model, written as `provider/model`."""
        return self._state.terms.wire.name

    @property
    def reasoning_effort(self) -> str | None:
        """The reasoning effort that its model is asked for; None where nothing sets one."""
        return self._state.terms.model_settings.reasoning_effort

    @property
    def cwd(self) -> str:
        """The directory that it works in."""
        return self._state.terms.cwd

    @property
    def worktree(self) -> OwnWorktree | None:
        """The git worktree that it works in, its own or its caller's; None where there is none."""
        return self._state.terms.worktree

    @property
    def rights(self) -> Rights:
        """What the conversation may do."""
        return self._state.terms.rights

    @property
    def ceiling(self) -> Rights:
        """The most that it can be given."""
        return self._state.ceiling

    @property
    def storage(self) -> StoragePolicy:
        """What of it is stored."""
        return self._state.storage

    @property
    def last_active(self) -> float:
        """When something last happened in it, in seconds since 1970."""
        return self._state.last_active

    @property
    def items(self) -> list[Item]:
        """Its history as it is now, injected messages included."""
        return list(self._state.history.snapshot())

    @property
    def agent_servers(self) -> list[str]:
        """The MCP servers that context providers described for its agent."""
        agents = self._parts.made.agent_registry
        context = None if agents is None else agents.context(self._state.id)
        return [] if context is None else [server.name for server in context.mcp_servers]

    def skills(self) -> SkillFolder:
        """The skills of the directory that it works in."""
        # Imported here: few clients ask for them.
        from tertulia.context.providers.skills import SkillFolder

        place, environment = self._parts.command_services.place, self._parts.environment
        return SkillFolder(self.cwd, place.masked, str(environment.merges.parent))

    @property
    def project_warnings(self) -> tuple[str, ...]:
        """What cannot be used of the files with its project's instructions."""
        return self._parts.project_files.warnings(self.cwd) if self._state.terms.project_instructions else ()

    def prompt(self) -> list[PromptPart]:
        """What its next request would consist of."""
        return prompt_parts(self._parts, self._state)


PartKind = Literal["instructions", "message", "tool"]


class PromptPart(msgspec.Struct, frozen=True):
    """One part of a prompt, and what it comes from."""

    kind: PartKind
    name: str
    source: str
    """Its origin: built-in, the user, a provider, or the source of a tool."""
    tokens: int
    """The estimated number of tokens."""
    text: str


_TAG = re.compile(r"<([a-z_]+)>")
_ADDITIONS = "context_additions"


def prompt_parts(parts: SessionParts, state: ConversationState) -> list[PromptPart]:
    """Instructions, messages and tools, in the order of a request."""
    refresh_when_shown(parts, state)
    terms = state.terms
    offered = parts.toolbox.offered(terms, terms.rights, merging=bool(state.worktree_children))
    override = terms.context.base_instructions
    first = list(_instruction_parts(override, offered, terms.wire.family))
    messages = (part for item in state.history.snapshot() for part in _message(state, item))
    return [*first, *messages, *(_tool(state, spec) for spec in offered.specs)]


def _instruction_parts(override: str | None, offered: OfferedTools, family: str) -> Iterator[PromptPart]:
    if override is not None:
        yield PromptPart("instructions", "instructions", "override", count_tokens(override), override)
        return
    for name, why in instruction_parts(offered.names, family):
        text = builtin_text(name)
        shown = f"instructions: {name}" if why else "instructions"
        source = f"built-in, {why}" if why else "built-in"
        yield PromptPart("instructions", shown, source, count_tokens(text), text)


def _message(state: ConversationState, item: Item) -> Iterator[PromptPart]:
    text = getattr(item, "text", None) or msgspec.json.encode(item).decode()
    tag = _TAG.match(text) if getattr(item, "injected", False) else None
    name = "message" if tag is None else tag[1]
    if name == _ADDITIONS and state.terms.agent is not None:
        for addition in state.terms.agent.additions:
            yield PromptPart("message", name, addition.provider, addition.tokens, addition.text)
        return
    source = {"user_instructions": "user", "message": "history", "project_instructions": "project"}.get(name, "session")
    yield PromptPart("message", name, source, count_tokens(text), text)


def _tool(state: ConversationState, spec: ToolSpec) -> PromptPart:
    # Its cost depends on the encoding for this model's provider; its text does not.
    tokens = count_tokens(state.terms.wire.dialect.encode_tools((spec,)).decode())
    source = spec.source if spec.server is None else f"{spec.source} {spec.server}"
    text = f"{spec.description}\n\n{msgspec.json.format(spec.schema, indent=2)}"
    return PromptPart("tool", spec.name, source, tokens, text)
