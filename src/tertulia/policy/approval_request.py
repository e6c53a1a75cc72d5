"""What somebody wants to do, as a person is asked about it and as a grant will find it again."""

from __future__ import annotations

import hashlib
import json
import shlex
from typing import Literal

import msgspec

from tertulia.policy.approval_policy import ApprovalPolicy, approval_to_wire
from tertulia.policy.commands import CommandKey
from tertulia.policy.shell_words import Words
from tertulia.policy.shown import shown
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_events import ApprovalRequest

ApprovalKind = Literal["exec", "patch", "escalation", "mcp", "tool"]
Scope = Literal["once", "conversation", "session"]
SCOPES: tuple[Scope, ...] = ("once", "conversation", "session")

_MAX_TITLE = 200


class Subject(msgspec.Struct, frozen=True):
    """All that a grant is bound to: change any of it, and it is another request."""

    words: Words
    """The command's canonical words; of a tool its name and its arguments as text, of a patch its text."""
    cwd: str
    environment: str
    """The environment policy, in one spelling."""
    sandbox: str
    """How the command is confined, in one spelling; for a call outside the sandbox: that it is."""

    @property
    def digest(self) -> str:
        """Of all of it."""
        # ASCII, because arguments may hold what UTF-8 cannot.
        whole = json.dumps([self.words, self.cwd, self.environment, self.sandbox], ensure_ascii=True)
        return hashlib.sha256(whole.encode()).hexdigest()


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to be allowed or denied. Texts are as they are; they are made fit to show on the way out."""

    kind: ApprovalKind
    conversation_id: ConversationId
    chain: tuple[ConversationId, ...] = ()
    """The conversations that wait for this one, the first caller first; there the request shows too."""
    title: str
    detail: str
    subject: Subject
    scopes: tuple[Scope, ...] = SCOPES

    def key(self, conversation: ConversationId | None, expires_at: float | None = None) -> CommandKey:
        """What a grant of this request is found by; None: in every conversation of the session."""
        return CommandKey((self.kind, *self.subject.words), conversation, expires_at, self.subject.digest)

    def as_event(self, approval_id: str, policy: ApprovalPolicy | None = None) -> ApprovalRequest:
        """What a person sees; `policy` is the one under which it is asked, if that is known.

        A grant that outlives the moment is offered only where all that it will match can be seen.
        """
        subject = self.subject
        least = [] if policy is None else [f"approval policy: {_described(policy)}, or one that allows more"]
        told = (
            f"{self.kind}: {shlex.join(subject.words)}",
            f"directory: {subject.cwd}",
            f"environment: {subject.environment}",
            f"sandbox: {subject.sandbox}",
            *least,
        )
        matches = [shown(match) for match in told]
        whole = all(match.whole for match in matches)
        return ApprovalRequest(
            approval_id=approval_id,
            kind=self.kind,
            conversation_id=self.conversation_id,
            chain=list(self.chain),
            title=shown(self.title, max_characters=_MAX_TITLE).text,
            detail=shown(self.detail, lines=True).text,
            matches=[match.text for match in matches],
            scopes=[scope for scope in self.scopes if whole or scope == "once"],
        )


def _described(policy: ApprovalPolicy) -> str:
    match approval_to_wire(policy):
        case str(name):
            return name
        case fields:
            return ", ".join(f"{name} {value}" for name, value in fields.items())


def verdict(policy: ApprovalPolicy, kind: ApprovalKind, *, known_safe: bool) -> Literal["run", "ask", "deny"]:
    """What the policy says before anybody is asked.

    Commands and patches run in the sandbox, so a policy that trusts it lets them; tools and MCP servers run outside
    of it, so only known-safe ones are free; nothing leaves the sandbox without an answer.
    """
    in_sandbox = kind in ("exec", "patch") and policy.auto_run == "sandboxed"
    if in_sandbox or (known_safe and kind != "escalation"):
        return "run"
    return "ask" if policy.may_ask else "deny"


def may_retry_outside(policy: ApprovalPolicy) -> bool:
    """Whether a command that failed in the sandbox may be asked for outside of it, without the model's asking."""
    return policy.may_ask and policy.retry_outside_on_failure
