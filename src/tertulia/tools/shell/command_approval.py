"""Approval of a command: from one that a model requests to one that may run, confined, asked about where the policy
wants it, and outside the sandbox where that was requested and allowed.

What is decided here is decided at the moment of the call, by the strictest rights of its chain.
"""

from __future__ import annotations

import shlex
from typing import Any

import msgspec
from msgspec.structs import replace

from tertulia.errors import ApprovalDeniedError, InvalidParamsError
from tertulia.policy.approvals.approval_queue import Permission
from tertulia.policy.approvals.approval_request import (
    GRANT_SCOPES,
    STORED_GRANT_SCOPES,
    ApprovalKind,
    ApprovalParts,
    GrantSubject,
    RequestedAction,
    as_one_line,
    command_text,
    may_retry_outside,
    policy_verdict,
    with_label,
)
from tertulia.policy.commands.command_analysis import CommandAnalysis, analyse_command, only_reads_in, safe_environment
from tertulia.policy.commands.named_files import WORDS_ALONE, NamedFiles, named_files
from tertulia.policy.commands.safe_programs import known_program
from tertulia.protocol.events import BackgroundEvent
from tertulia.protocol.storage import Full
from tertulia.protocol.tool_events import Decider
from tertulia.sandbox.runner import MAX_ARGUMENT_BYTES, Command, CommandResult, Confinement, TerminalSize
from tertulia.tools.command_environment import CommandEnvironment, describe_confinement
from tertulia.tools.shell.git_command import as_git_write, fails_for_protected_git
from tertulia.tools.threads import run_in_thread
from tertulia.tools.tool import CallContext, or_null

ESCALATED = "require_escalated"
_ADDITIONAL = "with_additional_permissions"
_HERE = ("", "local")
"""The accepted names of the one environment."""

_PERMISSIONS = {
    "type": "string",
    "enum": ["use_default", ESCALATED],
    "description": f"`{ESCALATED}` asks the user to let it run outside the sandbox.",
}
ESCALATION_ARGUMENTS: dict[str, dict[str, Any]] = {
    "sandbox_permissions": _PERMISSIONS,
    "justification": {
        "type": "string",
        "description": f"With `{ESCALATED}`: one sentence for the user that says why.",
    },
}
"""The arguments that ask for an escalation, as models are told about them."""

TOLERATED_ARGUMENTS: dict[str, dict[str, Any]] = {
    "sandbox_permissions": or_null(_PERMISSIONS | {"enum": [*_PERMISSIONS["enum"], _ADDITIONAL]}),
    "justification": or_null(ESCALATION_ARGUMENTS["justification"]),
    "with_escalated_permissions": {"type": ["boolean", "null"]},
    "prefix_rule": {"type": ["array", "null"], "items": {"type": "string"}},
    "environment_id": {"type": ["string", "null"]},
    "additional_permissions": {"type": ["object", "null"]},
}
"""Arguments that models know from other programs, and `ESCALATION_ARGUMENTS` where models were not told of them."""
_TRIES = 3
_ONLY_ONCE = (
    "Its text does not determine what it would run, or another command could change that meanwhile: a yes holds once."
)


class EscalationRequest(msgspec.Struct, frozen=True):
    """The escalation that a model requests. It gives no right."""

    escalated: bool = False
    """Whether it asks to run outside the sandbox."""
    justification: str | None = None
    rule: tuple[str, ...] = ()
    """The beginning of the commands that it would like to be allowed from now on. Shown, and without effect."""


def read_escalation(arguments: dict[str, Any]) -> EscalationRequest:
    """InvalidParams where it asks for what no approver could allow here."""
    permissions = arguments.get("sandbox_permissions")
    if permissions == _ADDITIONAL or arguments.get("additional_permissions"):
        # Not turned into an escalation, which would be more than the model requested.
        raise InvalidParamsError(
            "single permissions cannot be added to the sandbox; where a command must leave it, say "
            f"sandbox_permissions = {ESCALATED!r} with a justification"
        )
    if (place := arguments.get("environment_id") or "") not in _HERE:
        raise InvalidParamsError(f"there is no environment {place[:80]!r}; commands run in the one local environment")
    return EscalationRequest(
        # The second is an older name of the first.
        escalated=permissions == ESCALATED or arguments.get("with_escalated_permissions") is True,
        justification=arguments.get("justification"),
        rule=tuple(arguments.get("prefix_rule") or ()),
    )


class CommandRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A command as a model asks for it."""

    argv: tuple[str, ...]
    cwd: str
    escalation: EscalationRequest = EscalationRequest()
    terminal: TerminalSize | None = None


class ApprovedCommand(msgspec.Struct, frozen=True):
    """A command that may run."""

    command: Command
    allowed_by: Decider


def check_argv(argv: tuple[str, ...]) -> None:
    """Refuse what no system could start."""
    if not argv or not argv[0]:
        raise InvalidParamsError("command must name a program")
    if any("\0" in word for word in argv):
        raise InvalidParamsError("command must not contain a NUL")
    if any(len(word.encode()) > MAX_ARGUMENT_BYTES for word in argv):
        raise InvalidParamsError(
            f"no program can be given a text of more than {MAX_ARGUMENT_BYTES:,} bytes; write it into a file in pieces"
        )


async def approve_command(place: CommandEnvironment, order: CommandRequest, call: CallContext) -> ApprovedCommand:
    """The command as it may run. ApprovalDenied where it may not, NoApprover where there is no approver to ask."""
    reading = analyse_command(order.argv)
    if order.escalation.escalated and call.rights.sandbox != "danger_full_access":
        granted = await _ask(place, order, call, reading, "escalation", _reason(order.escalation))
        confinement = place.confinement(call.rights, call.worktree)
        return ApprovedCommand(_command(place, order, _unconfined(confinement), call), granted.decider)
    granted = await _ask(
        place, order, call, reading, "exec", _reason(order.escalation) if order.escalation.justification else ""
    )
    # Not before: a protected path may have been created while the approval was pending.
    confinement = place.confinement(call.rights, call.worktree)
    command = _command(place, order, confinement, call)
    if granted.by_policy and call.rights.approval_policy.auto_run == "trusted":
        # It runs without approval because it only reads, which holds only in this environment.
        writable = (place.root, *confinement.writable_roots)
        command = replace(command, environment=safe_environment(place.environment, writable))
    command = await as_git_write(place, command, call.rights)
    return ApprovedCommand(command, granted.decider)


async def approve_outside_sandbox(
    place: CommandEnvironment, order: CommandRequest, command: Command, failed: CommandResult, call: CallContext
) -> ApprovedCommand | None:
    """The same command outside the sandbox, after it has failed inside; None where that stays as it is."""
    reading = analyse_command(order.argv)
    inside = command.confinement.mode != "danger_full_access"
    if failed.exit_code == 0 or failed.ended != "exited" or not inside or reading.known_safe:
        return None
    policy = call.rights.approval_policy
    # Only git itself: any other command that changes `.git` must request an escalation.
    wants_git = any(known_program(words[0]) == "git" for words in reading.commands or ())
    may_git = wants_git and policy.may_ask and fails_for_protected_git(command, failed)
    if not (may_retry_outside(policy) or may_git):
        return None
    ended = f"It failed inside the sandbox with exit code {failed.exit_code}. The end of what it said"
    try:
        granted = await _ask(
            place, order, call, reading, "escalation", with_label(ended, failed.output.text()[-1_000:])
        )
    except ApprovalDeniedError:
        return None
    freed = _command(place, order, _unconfined(place.confinement(call.rights, call.worktree)), call)
    return ApprovedCommand(freed, granted.decider)


async def approve_typing(place: CommandEnvironment, command: Command, chars: str, call: CallContext) -> None:
    """Return when this may be typed into a command that runs already.

    The approval was for the command, not for later input. And a command with more rights than the caller, because it
    runs outside the sandbox or the caller's chain is narrower, must not become a way around the caller's rights.
    """
    within = place.confinement(call.rights, call.worktree)
    beyond = command.confinement != within
    words = (*command.argv, "<", chars)
    # What a program does with its input cannot be known.
    named = NamedFiles(known=False) if _is_free(command.confinement) else WORDS_ALONE
    request = RequestedAction(
        kind="escalation" if beyond else "exec",
        conversation_id=call.conversation_id,
        chain=call.chain.callers,
        call_id=call.call_id,
        title=f"type into {shlex.join(command.argv)}",
        detail="\n".join(
            (with_label("The model would type", chars), "into a command that runs:", command_text(command.argv))
        ),
        subject=place.subject(words, command.cwd, within, outside=beyond),
        named=named,
        parts=ApprovalParts(command=command.argv, cwd=command.cwd, sandbox=describe_confinement(command.confinement)),
    )
    with call.unhurried():
        granted = await place.approvals.ask(request, call.rights.approval_policy, call.publish)
    if granted.decider.kind == "grant":
        # The begin event of the command says what allowed it; input has no event of its own.
        call.publish(
            BackgroundEvent(f"typed into a command that runs, as allowed by the grant {granted.decider.grant_id}")
        )


async def _ask(
    place: CommandEnvironment,
    order: CommandRequest,
    call: CallContext,
    reading: CommandAnalysis,
    kind: ApprovalKind,
    why: str,
) -> Permission:
    """Ask for approval, and again where a file that the command names was replaced before the start."""
    confinement = place.confinement(call.rights, call.worktree)
    policy, safe = call.rights.approval_policy, reading.known_safe
    if safe and policy.auto_run == "trusted":
        safe = await run_in_thread(only_reads_in, reading, order.cwd, (place.root, *confinement.writable_roots))
    if policy_verdict(policy, kind, known_safe=safe) == "ask" and (kind == "escalation" or _is_free(confinement)):
        named = await _named(place, order, confinement)
    else:
        named = WORDS_ALONE
    subject = place.subject(reading.canonical, order.cwd, confinement, outside=kind == "escalation")
    for _ in range(_TRIES):
        request = _request(order, call, subject, kind, _and_why_once(why, named))
        with call.unhurried():
            granted = await place.approvals.ask(replace(request, named=named), policy, call.publish, known_safe=safe)
        now = named if named is WORDS_ALONE else await _named(place, order, confinement)
        # A command that was started meanwhile may write between this look and the start.
        if now.files == named.files and (now.known or granted.decider.kind != "grant"):
            return granted
        named = now
    raise ApprovalDeniedError("files that this command names changed each time it was allowed, so it was not run")


async def _named(place: CommandEnvironment, order: CommandRequest, confinement: Confinement) -> NamedFiles:
    roots = (place.root, *confinement.writable_roots)
    named = await run_in_thread(named_files, order.argv, order.cwd, place.environment, roots)
    # A command that writes at the same time could replace the file after this look.
    return replace(named, known=named.known and not (named.contents and place.runner.is_writing))


def _and_why_once(why: str, named: NamedFiles) -> str:
    return why if named.known else "\n".join(part for part in (why, _ONLY_ONCE) if part)


def _request(
    order: CommandRequest, call: CallContext, subject: GrantSubject, kind: ApprovalKind, why: str
) -> RequestedAction:
    line, outside = shlex.join(order.argv), kind == "escalation"
    return RequestedAction(
        kind=kind,
        conversation_id=call.conversation_id,
        chain=call.chain.callers,
        call_id=call.call_id,
        title=f"run outside the sandbox: {line}" if outside else f"run: {line}",
        detail="\n".join(
            part
            for part in (
                command_text(order.argv),
                f"in {as_one_line(order.cwd)}",
                why,
                _suggested(order.escalation.rule),
            )
            if part
        ),
        subject=subject,
        parts=ApprovalParts(
            command=order.argv, cwd=order.cwd, sandbox=subject.sandbox, justification=order.escalation.justification
        ),
        # A yes for the project is stored with the words of the command.
        scopes=STORED_GRANT_SCOPES if isinstance(call.rights.storage_policy, Full) else GRANT_SCOPES,
    )


def _reason(escalation: EscalationRequest) -> str:
    if not escalation.justification:
        return "The model gave no reason."
    return with_label("The model's reason, in its own words", escalation.justification)


def _suggested(rule: tuple[str, ...]) -> str:
    """A grant is for one command. That a model asked for more is shown, without effect."""
    label = "The model would like to run whatever begins with the following; a yes does not allow that"
    return with_label(label, shlex.join(rule)) if rule else ""


def _command(place: CommandEnvironment, order: CommandRequest, confinement: Confinement, call: CallContext) -> Command:
    return Command(
        argv=order.argv,
        cwd=order.cwd,
        confinement=confinement,
        environment=place.environment,
        gate=place.gate(confinement, order.argv, call),
        terminal=order.terminal,
        account=call.task_id,
        watch=place.watch(call.rights),
    )


def _is_free(confinement: Confinement) -> bool:
    return confinement.mode == "danger_full_access"


def _unconfined(confinement: Confinement) -> Confinement:
    return replace(confinement, mode="danger_full_access", network=True)
