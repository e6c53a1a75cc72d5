"""What somebody wants to do, as a person is asked about it and as a grant will find it again."""

from __future__ import annotations

import hashlib
import json
import shlex
from typing import Literal

import msgspec

from tertulia.policy.approval_parts import PartName, Parts, event_texts, in_line, labelled, whole_texts
from tertulia.policy.approval_policy import ApprovalPolicy, approval_to_wire
from tertulia.policy.commands import CommandKey
from tertulia.policy.named_files import WORDS_ALONE, Named
from tertulia.policy.shell_words import Words
from tertulia.policy.shown import in_words, sha256, shown, visible
from tertulia.protocol.ids import CallId, ConversationId
from tertulia.protocol.tool_events import ApprovalRequest

ApprovalKind = Literal["exec", "patch", "escalation", "mcp", "tool"]
Scope = Literal["once", "conversation", "session"]
SCOPES: tuple[Scope, ...] = ("once", "conversation", "session")

_MAX_TITLE = 200
_MAX_CHANGED = 16
"""Files that an event lists as changed, each by so many characters; `detail` has all of them whole."""
_MAX_CHANGED_PATH = 500


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
    call_id: CallId | None = None
    title: str
    detail: str
    """All that a person has to know; see `approval_parts` for how it tells our words from those of others."""
    subject: Subject
    parts: Parts = Parts()
    scopes: tuple[Scope, ...] = SCOPES
    named: Named = WORDS_ALONE
    """The scripts and programs that a grant will be bound to as well. Where they are not known it holds once."""
    changed: tuple[str, ...] = ()
    """Those that are not what they were when the same words were last allowed for longer."""

    def key(self, conversation: ConversationId | None, expires_at: float | None = None) -> CommandKey:
        """What a grant of this request is found by; None: in every conversation of the session."""
        return CommandKey((self.kind, *self.subject.words), conversation, expires_at, self.subject.digest)

    def matches(self, policy: ApprovalPolicy | None) -> list[str]:
        """All that a grant will match, in words; `policy` is the one under which it is asked, if that is known."""
        subject = self.subject
        least = (
            []
            if policy is None
            else [f"approval policy: {in_words(approval_to_wire(policy))}, or one that allows more"]
        )
        return [
            f"{self.kind}: {shlex.join(subject.words)}",
            f"directory: {subject.cwd}",
            f"environment: {subject.environment}",
            f"sandbox: {subject.sandbox}",
            *(f"file: {file.path}, sha256 of path and content {file.digest}" for file in self.named.contents),
            *least,
        ]

    @property
    def offered(self) -> tuple[Scope, ...]:
        """How far a yes may reach, as far as what it would cover is known."""
        return self.scopes if self.named.known else ("once",)

    @property
    def whole_detail(self) -> str:
        """With what has changed said first."""
        if not self.changed:
            return self.detail
        label = f"CHANGED since this was last allowed for longer ({len(self.changed)})"
        return f"{labelled(label, chr(10).join(map(in_line, self.changed)))}\n{self.detail}"

    def texts(self, policy: ApprovalPolicy) -> dict[PartName, str]:
        """Every text of it, whole and fit to be shown."""
        return whole_texts(self.whole_detail, self.matches(policy), self.parts)

    def as_event(
        self, approval_id: str, policy: ApprovalPolicy | None = None, *, asked_at: str | None = None,
        expires_at: str | None = None,
    ) -> ApprovalRequest:  # fmt: skip
        """What a person sees.

        A grant that outlives the moment is offered only where all that it will match can be seen.
        """
        parts, detail = self.parts, visible(self.whole_detail, lines=True)
        texts = event_texts(self.whole_detail, self.matches(policy), parts)
        return ApprovalRequest(
            approval_id=approval_id,
            kind=self.kind,
            conversation_id=self.conversation_id,
            chain=list(self.chain),
            title=shown(self.title, max_characters=_MAX_TITLE).text,
            detail=texts.detail,
            matches=texts.matches,
            scopes=[scope for scope in self.offered if texts.whole or scope == "once"],
            call_id=self.call_id,
            asked_at=asked_at,
            expires_at=expires_at,
            command=texts.command,
            script=texts.script,
            cwd=None if parts.cwd is None else visible(parts.cwd),
            sandbox=None if parts.sandbox is None else visible(parts.sandbox),
            files=texts.files,
            server=None if parts.server is None else visible(parts.server),
            tool=None if parts.tool is None else visible(parts.tool),
            arguments=texts.arguments,
            justification=texts.justification,
            changed=tuple(shown(path, max_characters=_MAX_CHANGED_PATH).text for path in self.changed[:_MAX_CHANGED]),
            size=len(detail),
            digest=sha256(detail),
            hidden=texts.hidden,
        )


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
