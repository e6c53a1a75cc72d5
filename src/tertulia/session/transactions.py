"""Changes that are committed before clients are told of them, and taken back where they cannot be."""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from tertulia.conversation.resolve_terms import ResolvedTerms
from tertulia.conversation.state import ConversationState
from tertulia.conversation.terms import NATIVE
from tertulia.errors import TertuliaError
from tertulia.protocol.ids import ItemId, new_conversation_id
from tertulia.protocol.inputs import AgentSpec, NewConversation, SetContext
from tertulia.protocol.storage import StoragePolicy, strictness
from tertulia.session.parts import SessionParts
from tertulia.session.settings.workspace import check_directory_exists
from tertulia.session.terms import directory_of, new_id, with_worktree


async def open_conversation(parts: SessionParts, spec: NewConversation) -> tuple[ConversationState, ResolvedTerms]:
    """Open a conversation. Where the journal refuses it, it is removed again."""
    check_directory_exists(spec.cwd)
    # A client that names tools means also those of servers that are still starting.
    await _settle_servers(parts)
    spec = parts.terms_resolver.agents.opened(spec)
    if spec.workspace != "worktree":
        return await _open(parts, spec)
    from tertulia.session.worktrees.conversation_worktrees import repository_around

    above = _above(parts, spec)
    cwd = spec.cwd if isinstance(spec.cwd, str) else above.terms.cwd
    parts.conversations.check_child(replace(spec, agent=UNSET, mcp_tool_allowlist=UNSET), above)
    repository_around(cwd)
    worktree = await parts.worktrees.make(new_conversation_id(), cwd, above.terms.worktree)
    try:
        opened = await _open(parts, with_worktree(spec, worktree))
    except BaseException:
        await parts.worktrees.discard(worktree)
        raise
    parts.worktrees.adopt(worktree)
    return opened


async def _open(parts: SessionParts, spec: NewConversation) -> tuple[ConversationState, ResolvedTerms]:
    if isinstance(spec.agent, AgentSpec):
        return await _open_agent(parts, spec, spec.agent)
    conversation, resolved = parts.conversations.open(spec)
    await _commit_new(parts, conversation)
    return conversation, resolved


def _above(parts: SessionParts, spec: NewConversation) -> ConversationState:
    conversations = parts.conversations
    return conversations.root if spec.parent_id in (UNSET, None) else conversations.find(str(spec.parent_id))


async def _settle_servers(parts: SessionParts) -> None:
    if (servers := parts.made.servers) is not None:
        await servers.settle()


async def _open_agent(
    parts: SessionParts, spec: NewConversation, agent: AgentSpec
) -> tuple[ConversationState, ResolvedTerms]:
    """Prepare an agent and open its conversation, after all checks that need no provider.

    One that is not opened leaves no token.
    """
    conversations, above = parts.conversations, _above(parts, spec)
    # Its own servers are not known yet: their names are checked when it is opened.
    rights = conversations.check_child(replace(spec, agent=UNSET, mcp_tool_allowlist=UNSET), above)
    conversation, cwd = new_id(spec), directory_of(spec, above.terms)
    if isinstance(spec.backend, str) and agent.backend_type == NATIVE:
        agent = replace(agent, backend_type=spec.backend)
    prepared_agent = await parts.agent_registry.prepare(conversation, agent, cwd, rights.storage_policy)
    try:
        state, resolved = conversations.open(spec, prepared_agent)
    except BaseException:
        parts.agent_registry.dismiss(conversation)
        raise
    await _commit_new(parts, state)
    return state, replace(resolved, warnings=resolved.warnings + prepared_agent.warnings)


async def fork_conversation(
    parts: SessionParts, source: ConversationState, at: ItemId | int | None
) -> ConversationState:
    """Fork a conversation. Where the journal refuses it, it is removed again."""
    worktree = source.terms.worktree
    if worktree is None or worktree.conversation_id != source.id:
        conversation = parts.conversations.fork(source, at)
        await _commit_new(parts, conversation)
        return conversation
    # The fork starts from the same native session, and the two do not affect each other.
    await parts.worktrees.ready(source)
    own = await parts.worktrees.make(new_conversation_id(), source.terms.cwd, worktree)
    try:
        conversation = parts.conversations.fork(source, at, own)
        await _commit_new(parts, conversation)
    except BaseException:
        await parts.worktrees.discard(own)
        raise
    parts.worktrees.adopt(own)
    return conversation


async def _commit_new(parts: SessionParts, conversation: ConversationState) -> None:
    try:
        await parts.bus.flush()
    except TertuliaError:
        if parts.conversations.peek(conversation.id) is conversation:
            parts.conversations.forget(conversation, forced=None)
        raise


async def _forget_checkpoints(parts: SessionParts, conversation: ConversationState, former: StoragePolicy) -> None:
    """Remove what a stricter storage policy does not allow any more."""
    is_stricter = strictness(conversation.storage) < strictness(former)
    if is_stricter and parts.settings.checkpoints and parts.no_checkpoints is None:
        await parts.checkpoints.forget(conversation)


async def change_conversation(
    parts: SessionParts, conversation: ConversationState, params: SetContext
) -> ResolvedTerms:
    """Set new terms. Where the journal refuses them, the former ones hold again; events about them stay published."""
    check_directory_exists(params.cwd)
    await _settle_servers(parts)
    conversations = parts.conversations
    former, title, cuts = conversation.terms, conversation.title, conversations.narrowed(conversation)
    resolved = conversations.change(conversation, params)
    try:
        await parts.bus.flush()
    except TertuliaError:
        conversations.take_back(conversation, former, title, cuts)
        raise
    await _forget_checkpoints(parts, conversation, former.rights.storage_policy)
    if former.wire is not resolved.terms.wire and conversation.task is None:
        # A wire that a running task may still read from is closed with the session.
        conversations.release(former)
    services = parts.made.command_services
    if services is not None and former.backend != resolved.terms.backend and conversation.task is None:
        # An executor that still works for it is released when its task is over.
        await services.resources.take_leave(conversation.id, former.backend)
    return resolved
