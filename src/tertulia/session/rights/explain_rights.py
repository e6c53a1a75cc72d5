"""Explains the rights of a conversation: each value and what set it, and what would happen to a command or a call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tertulia.errors import InvalidParamsError
from tertulia.policy.approvals.approval_request import ApprovalKind, policy_verdict, verdict_reason
from tertulia.policy.commands.command_analysis import analyse_command, only_reads_in
from tertulia.policy.rights import Rights, meet, to_wire
from tertulia.protocol.conversation_fields import RIGHT_FIELDS
from tertulia.session import describe
from tertulia.session.rights.answers import ExplainedAction, ExplainedRight, RightsAnswer
from tertulia.session.settings.layers import DEFAULT
from tertulia.session.settings.settings import Settings
from tertulia.session.views import refresh_when_shown
from tertulia.tools.command_environment import describe_confinement
from tertulia.tools.mcp_tool import runs_unasked
from tertulia.tools.patch.call_patch import FILE_TOOLS
from tertulia.tools.shell.command_approval import check_argv
from tertulia.tools.threads import run_in_thread

if TYPE_CHECKING:
    from tertulia.conversation.state import ConversationState
    from tertulia.policy.approval_policy import ApprovalPolicy
    from tertulia.policy.approvals.approval_request import RequestedAction
    from tertulia.protocol.inputs import ExplainRights
    from tertulia.protocol.tool_spec import ToolSpec
    from tertulia.session.parts import SessionParts

_SHELL = ("bash", "-c")
"""How a command in one text is read, as the shell tool would run it."""
_COMMANDS = frozenset({"shell", "bash", "local_shell", "exec_command"})
_PROGRAM = "program"
"""The source of settings that no file and no flag gave."""


async def explain_rights(parts: SessionParts, params: ExplainRights) -> RightsAnswer:
    """Answer `rights/explain`.

    Raises:
        InvalidParamsError: More than one of command, tool and host is given, or it is none.
    """
    if sum(value is not None for value in (params.command, params.tool, params.host)) > 1:
        raise InvalidParamsError("of command, tool and host more than one is given; ask for one of them")
    conversation = parts.conversations.find(params.conversation_id)
    now = _rights_now(parts, conversation)
    rights = [_explain_right(parts, conversation, right, now) for right in RIGHT_FIELDS]
    action = None
    if params.command is not None:
        words = (*_SHELL, params.command) if isinstance(params.command, str) else params.command
        action = await _explain_command(parts, conversation, now, words)
    elif params.tool is not None:
        await parts.servers.settle()
        action = _explain_tool(parts, conversation, now, params.tool)
    elif params.host is not None:
        from tertulia.session.rights.explain_host import explain_host

        action = explain_host(parts, conversation, now, params.host)
    return RightsAnswer(conversation.id, rights, action)


def policy_source(parts: SessionParts, request: RequestedAction, policy: ApprovalPolicy) -> str:
    """What set the approval policy under which a person is asked, for `Because.set_by`."""
    conversation = parts.conversations.peek(request.conversation_id)
    if conversation is None or conversation.terms.rights.approval_policy != policy:
        return "chain"
    return _set_by(parts, conversation, "approval_policy")


def _rights_now(parts: SessionParts, conversation: ConversationState) -> Rights:
    """What a task of it may do: no more than any conversation that waits for it."""
    rights = conversation.terms.rights
    running = (task for task in describe.tasks(parts) if task.conversation_id == conversation.id)
    for caller in next((task.chain[:-1] for task in running if task.status == "running"), ()):
        if (waiting := parts.conversations.peek(caller)) is not None:
            rights = meet(rights, waiting.terms.rights)
    return rights


def _explain_right(parts: SessionParts, conversation: ConversationState, right: str, now: Rights) -> ExplainedRight:
    value, field = getattr(conversation.terms.rights, right), RIGHT_FIELDS[right].name
    set_by = _set_by(parts, conversation, right)
    cut = next((cut for cut in parts.conversations.narrowed(conversation) if cut.field == field), None)
    held = getattr(now, right)
    return ExplainedRight(
        field,
        to_wire(right, value),
        set_by,
        source=_source(parts, field) if set_by == "session" else None,
        asked=None if cut is None else cut.asked,
        now=None if held == value else to_wire(right, held),
    )


def _set_by(parts: SessionParts, conversation: ConversationState, right: str) -> str:
    """The nearest one that has this very value, since a conversation inherits what it does not ask for."""
    for cut in parts.conversations.narrowed(conversation):
        if cut.field == RIGHT_FIELDS[right].name:
            return cut.because
    value = getattr(conversation.terms.rights, right)
    resolver = parts.terms_resolver
    if right in resolver.widened and value == getattr(resolver.ceiling, right):
        return f"person:{resolver.widened[right]}"
    if value == getattr(parts.settings.defaults, right):
        return "session"
    above = None if conversation.parent_id is None else parts.conversations.peek(conversation.parent_id)
    if above is not None and value == getattr(above.terms.rights, right):
        return f"ancestor:{above.id}"
    agent = conversation.terms.agent
    return "conversation" if agent is None else f"agent:{agent.name}"


def _source(parts: SessionParts, field: str) -> str:
    # Of a table each entry has a source of its own.
    sources = parts.settings.sources.items()
    found = {source for name, source in sources if name == field or name.startswith(f"{field}.")}
    if found:
        return ", ".join(_with_line(source, field) for source in sorted(found))
    return DEFAULT if getattr(parts.settings, field, None) == getattr(Settings(), field, None) else _PROGRAM


def _with_line(source: str, field: str) -> str:
    line = _line_of(Path(source), field) if source.startswith("/") else None
    return source if line is None else f"{source}:{line}"


def _line_of(path: Path, field: str) -> int | None:
    """The line of a settings file that says it, as the file is now."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(rf"^[ \t]*(?:\"?{field}\"?[ \t]*[.=]|\[{field}\])", text, re.MULTILINE)
    return None if found is None else text.count("\n", 0, found.start()) + 1


async def _explain_command(
    parts: SessionParts, conversation: ConversationState, now: Rights, words: Sequence[str]
) -> ExplainedAction:
    if not now.shell:
        return ExplainedAction("deny", "this conversation has no shell", _set_by(parts, conversation, "shell"))
    check_argv(tuple(words))
    place, terms = parts.command_services.place, conversation.terms
    confinement = place.confinement(now, terms.worktree)
    reading = analyse_command(tuple(words))
    safe = reading.known_safe and await run_in_thread(
        only_reads_in, reading, terms.cwd, (place.root, *confinement.writable_roots)
    )
    action = _verdict(parts, conversation, now, "exec", known_safe=safe)
    return replace(action, sandbox=describe_confinement(confinement))


def _explain_tool(parts: SessionParts, conversation: ConversationState, now: Rights, name: str) -> ExplainedAction:
    refresh_when_shown(parts, conversation)
    offered = parts.toolbox.offered(conversation.terms, now, merging=bool(conversation.worktree_children))
    spec = next((spec for spec in offered.specs if spec.name == name), None)
    if spec is None:
        return ExplainedAction("deny", f"this conversation has no tool {name[:80]!r}", "conversation")
    if spec.source == "mcp":
        return _explain_server_tool(parts, conversation, now, spec)
    if name in _COMMANDS:
        return _verdict(parts, conversation, now, "exec", known_safe=False)
    if name in FILE_TOOLS:
        return _verdict(parts, conversation, now, "patch", known_safe=False)
    return ExplainedAction("run", "it does not touch files or start programs by itself", "session")


def _explain_server_tool(
    parts: SessionParts, conversation: ConversationState, now: Rights, spec: ToolSpec
) -> ExplainedAction:
    current = parts.servers.current(spec, conversation.id)
    if runs_unasked(current, now):
        definition = current.definition
        return ExplainedAction("run", f'mcp_servers.{definition.name}.approval = "{definition.approval}"', "session")
    return _verdict(parts, conversation, now, "mcp", known_safe=False)


def _verdict(
    parts: SessionParts, conversation: ConversationState, now: Rights, kind: ApprovalKind, *, known_safe: bool
) -> ExplainedAction:
    policy = now.approval_policy
    own = policy == conversation.terms.rights.approval_policy
    return ExplainedAction(
        policy_verdict(policy, kind, known_safe=known_safe),
        verdict_reason(policy, kind, known_safe=known_safe),
        _set_by(parts, conversation, "approval_policy") if own else "chain",
    )
