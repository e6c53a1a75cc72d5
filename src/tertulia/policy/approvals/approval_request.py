"""The texts of an approval request: what belongs to it, who wrote which text, and what of it fits into an event.

Text of models, agents, servers and commands is in lines that begin with a bar, below a line that names its author. So
no such text can look like Tertulia's own.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from tertulia.policy.approval_policy import ApprovalPolicy, approval_to_wire
from tertulia.policy.commands.command_analysis import SCRIPT_FLAGS, SHELLS, GrantKey, Words
from tertulia.policy.commands.named_files import WORDS_ALONE, NamedFiles
from tertulia.policy.display_text import make_display_text, sha256, value_text, visible
from tertulia.protocol.ids import CallId, ConversationId
from tertulia.protocol.tool_events import ApprovalFile, ApprovalRequest, Because

MAX_EVENT_BYTES = 64 * 1024
"""Of the texts of one event, as UTF-8. What does not fit is asked for with `approval/get`."""
MAX_PAGE = 64 * 1024
"""Characters of one answer to `approval/get`."""

_MAX_DETAIL_BYTES = 48 * 1024
_CUT_DETAIL = 12_000
_CUT_PART = 1_000
_CUT_FILES = 64
_BAR = "│ "

PartName = Literal["detail", "command", "script", "arguments", "justification", "matches", "files"]


class ApprovalParts(msgspec.Struct, frozen=True, kw_only=True):
    """The raw parts of a request: nothing here is made safe to show yet."""

    command: Words = ()
    cwd: str | None = None
    sandbox: str | None = None
    files: tuple[ApprovalFile, ...] = ()
    server: str | None = None
    tool: str | None = None
    arguments: str | None = None
    justification: str | None = None


class EventTexts(msgspec.Struct, frozen=True):
    """The texts of an event, fit to be shown, cut where they would be too long together."""

    detail: str
    matches: list[str]
    command: str | None
    script: str | None
    arguments: str | None
    justification: str | None
    files: tuple[ApprovalFile, ...]
    hidden: int
    """Characters of `detail` that were cut out."""
    whole: bool
    """Nothing of any of them was cut."""


def with_label(label: str, text: str) -> str:
    """A text below a line that names its author."""
    return "\n".join([f"{label}:", *(f"{_BAR}{line}" for line in text.rstrip("\n").split("\n"))])


def as_one_line(text: str) -> str:
    """A path or a name on a single line, which it cannot break."""
    return text.replace("\n", "\\n")


def script_of(command: Sequence[str]) -> str | None:
    """The script that a shell is given with `-c`; None where this is another command."""
    if len(command) == 3 and command[0] in SHELLS and command[1] in SCRIPT_FLAGS:
        return command[2]
    return None


def command_text(command: Sequence[str]) -> str:
    """A command for people: its words quoted, or a script as its author wrote it."""
    script, line = script_of(command), shlex.join(command)
    if script is not None:
        return with_label(f"{shlex.join(command[:2])} with this script", script)
    return with_label("command", line) if "\n" in line else line


def whole_texts(detail: str, matches: Sequence[str], parts: ApprovalParts) -> dict[PartName, str]:
    """Every part by its name, whole and fit to be shown."""
    files = "\n".join(f"{file.kind} {visible(file.path)} +{file.added} -{file.removed}" for file in parts.files)
    script = script_of(parts.command)
    texts: dict[PartName, str | None] = {
        "detail": visible(detail, lines=True),
        "command": visible(shlex.join(parts.command), lines=True) if parts.command else None,
        "script": None if script is None else visible(script, lines=True),
        "arguments": None if parts.arguments is None else visible(parts.arguments, lines=True),
        "justification": None if parts.justification is None else visible(parts.justification, lines=True),
        "matches": "\n".join(map(visible, matches)),
        "files": files or None,
    }
    return {name: text for name, text in texts.items() if text is not None}


def event_texts(texts: Mapping[PartName, str], matches: Sequence[str], parts: ApprovalParts) -> EventTexts:
    """What goes into the event: everything, or the beginning and the end of what is long, with the number left out."""
    files = tuple(msgspec.structs.replace(file, path=visible(file.path)) for file in parts.files)
    whole = sum(len(text.encode()) for text in texts.values()) <= MAX_EVENT_BYTES
    remaining, lines = dict(texts), [visible(match) for match in matches]
    if not whole:
        # The detail contains all other texts, so it is cut last.
        lines = [make_display_text(match, max_characters=_CUT_PART).text for match in matches[:_CUT_FILES]]
        files = files[:_CUT_FILES]
        for name in ("command", "script", "arguments", "justification"):
            if name in remaining:
                remaining[name] = _cut(remaining[name], _CUT_PART)
        if len(texts["detail"].encode()) > _MAX_DETAIL_BYTES:
            remaining["detail"] = _cut(texts["detail"], _CUT_DETAIL)
    return EventTexts(
        detail=remaining["detail"],
        matches=lines,
        command=remaining.get("command"),
        script=remaining.get("script"),
        arguments=remaining.get("arguments"),
        justification=remaining.get("justification"),
        files=files,
        hidden=0 if remaining["detail"] == texts["detail"] else len(texts["detail"]) - _CUT_DETAIL,
        whole=whole,
    )


def hidden_text_notice(hidden: int, size: int, digest: str | None) -> str:
    """How much of a request is not shown, for surfaces that offer a yes; empty where all of it is."""
    if not hidden:
        return ""
    return (
        f"NOT ALL IS SHOWN: {hidden:,} of {size:,} characters are hidden here (sha256 {digest}; approval/get has them)"
    )


def _cut(text: str, most: int) -> str:
    """The text is fit to be shown already, and a mark of its own would be escaped again."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}⟨… {len(text) - 2 * half:,} characters are not shown here …⟩{text[-half:]}"


ApprovalKind = Literal["exec", "patch", "escalation", "mcp", "tool", "network"]
Verdict = Literal["run", "ask", "deny"]
GrantScope = Literal["once", "conversation", "session", "project"]
GRANT_SCOPES: tuple[GrantScope, ...] = ("once", "conversation", "session")
"""What a yes may be given for where nothing of it may be stored."""
STORED_GRANT_SCOPES: tuple[GrantScope, ...] = (*GRANT_SCOPES, "project")

_MAX_TITLE = 200
_MAX_CHANGED = 16
"""Files that an event lists as changed, each by so many characters; `detail` has all of them whole."""
_MAX_CHANGED_PATH = 500


class GrantSubject(msgspec.Struct, frozen=True):
    """All that a grant is bound to: change any of it, and it is another request."""

    words: Words
    """The command's canonical words; of a tool its name and its arguments as text, of a patch its text."""
    cwd: str
    environment: str
    """The environment policy, in one spelling."""
    sandbox: str
    """How the command is confined, in one spelling; for a call outside the sandbox: that it is."""

    @property
    def surroundings(self) -> tuple[tuple[str, str], ...]:
        """What counts besides the words; of a host there is nothing."""
        return ("directory", self.cwd), ("environment", self.environment), ("sandbox", self.sandbox)

    @property
    def digest(self) -> str:
        """The digest of the whole request."""
        # ASCII, because arguments may hold what UTF-8 cannot.
        whole = json.dumps([self.words, self.cwd, self.environment, self.sandbox], ensure_ascii=True)
        return hashlib.sha256(whole.encode()).hexdigest()


class RequestedAction(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to be allowed or denied. Its texts are raw; they are made safe to show when they are published."""

    kind: ApprovalKind
    conversation_id: ConversationId
    chain: tuple[ConversationId, ...] = ()
    """The conversations that wait for this one, the first caller first; there the request shows too."""
    call_id: CallId | None = None
    title: str
    detail: str
    """The whole text of the request, in which Tertulia's own lines are told apart from those of others."""
    subject: GrantSubject
    parts: ApprovalParts = ApprovalParts()
    scopes: tuple[GrantScope, ...] = GRANT_SCOPES
    named: NamedFiles = WORDS_ALONE
    """The scripts and programs that a grant will be bound to as well. Where they are not known it holds once."""
    changed: tuple[str, ...] = ()
    """Files that have changed since the same words were last allowed for longer."""
    because: Because | None = None
    """Why it is asked; the queue fills it in."""

    def key(self, conversation: ConversationId | None, expires_at: float | None = None) -> GrantKey:
        """What a grant of this request is found by; None: in every conversation of the session."""
        return GrantKey((self.kind, *self.subject.words), conversation, expires_at, self.subject.digest)

    def matches(self, policy: ApprovalPolicy | None) -> list[str]:
        """All that a grant will match, in words; `policy` is the one under which it is asked, if that is known."""
        subject = self.subject
        least = (
            []
            if policy is None
            else [f"approval policy: {value_text(approval_to_wire(policy))}, or one that allows more"]
        )
        return [
            f"{self.kind}: {shlex.join(subject.words)}",
            *(f"{label}: {text}" for label, text in subject.surroundings if text),
            *(f"file: {file.path}, sha256 of path and content {file.digest}" for file in self.named.contents),
            *least,
        ]

    @property
    def offered(self) -> tuple[GrantScope, ...]:
        """How far a yes may reach, as far as what it would cover is known."""
        return self.scopes if self.named.known else ("once",)

    @property
    def whole_detail(self) -> str:
        """The text with the changed files first."""
        if not self.changed:
            return self.detail
        label = f"CHANGED since this was last allowed for longer ({len(self.changed)})"
        return f"{with_label(label, chr(10).join(map(as_one_line, self.changed)))}\n{self.detail}"

    def texts(self, policy: ApprovalPolicy | None) -> dict[PartName, str]:
        """Every text of it, whole and fit to be shown."""
        return whole_texts(self.whole_detail, self.matches(policy), self.parts)

    def as_event(
        self, approval_id: str, policy: ApprovalPolicy | None = None, *, asked_at: str | None = None,
        expires_at: str | None = None, whole: Mapping[PartName, str] | None = None,
    ) -> ApprovalRequest:  # fmt: skip
        """What a person sees; `whole` are its `texts`, where they were made already.

        A grant that outlives the moment is offered only where all that it will match can be seen.
        """
        whole = whole or self.texts(policy)
        parts, detail = self.parts, whole["detail"]
        texts = event_texts(whole, self.matches(policy), parts)
        return ApprovalRequest(
            approval_id=approval_id,
            kind=self.kind,
            conversation_id=self.conversation_id,
            chain=list(self.chain),
            title=make_display_text(self.title, max_characters=_MAX_TITLE).text,
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
            changed=tuple(
                make_display_text(path, max_characters=_MAX_CHANGED_PATH).text for path in self.changed[:_MAX_CHANGED]
            ),
            size=len(detail),
            digest=sha256(detail),
            hidden=texts.hidden,
            because=self.because,
        )


class PreparedRequest(msgspec.Struct, frozen=True):
    """A request with all that clients may read of it, made once: to make a megabyte fit to be shown takes a while."""

    event: ApprovalRequest
    texts: dict[PartName, str]
    """Every text of it, whole, by its name."""
    digests: dict[PartName, str]
    """The SHA-256 of each of these texts."""


def prepare_request(
    request: RequestedAction, approval_id: str, policy: ApprovalPolicy, asked_at: str, expires_at: str
) -> PreparedRequest:
    """The request as clients get it."""
    texts = request.texts(policy)
    event = request.as_event(approval_id, policy, asked_at=asked_at, expires_at=expires_at, whole=texts)
    return PreparedRequest(event, texts, {name: sha256(text) for name, text in texts.items()})


_ASKED_ABOUT = {
    "exec": "only commands that are known to do nothing but read run unasked",
    "patch": "every change of files is asked about",
    "mcp": "tools of MCP servers run outside the sandbox, so only those known to be safe run unasked",
    "network": "only hosts of the list network.allow are reached unasked",
    "tool": "functions of the program run outside the sandbox, so only those known to be safe run unasked",
}


def policy_verdict(policy: ApprovalPolicy, kind: ApprovalKind, *, known_safe: bool) -> Verdict:
    """What the policy says before a person is asked.

    Commands and patches run in the sandbox, so a policy that trusts it lets them; tools and MCP servers run outside
    of it, so only known-safe ones are free; nothing leaves the sandbox without an answer.
    """
    in_sandbox = kind in ("exec", "patch") and policy.auto_run == "sandboxed"
    if in_sandbox or (known_safe and kind != "escalation"):
        return "run"
    return "ask" if policy.may_ask else "deny"


def verdict_reason(policy: ApprovalPolicy, kind: ApprovalKind, *, known_safe: bool) -> str:
    """The rule behind the verdict, in one sentence for people."""
    name = value_text(approval_to_wire(policy))
    if policy_verdict(policy, kind, known_safe=known_safe) == "run":
        known = "it is known to do nothing but read" if known_safe else "what stays in the sandbox runs unasked"
        return f"the approval policy is {name}: {known}"
    rule = "nothing leaves the sandbox unasked"
    if kind != "escalation":
        rule = f"the approval policy is {name}: {_ASKED_ABOUT[kind]}"
    return rule if policy.may_ask else f"{rule}; the approval policy is {name}, so no person may be asked"


def may_retry_outside(policy: ApprovalPolicy) -> bool:
    """Whether a command that failed in the sandbox may be asked for outside of it, without the model's asking."""
    return policy.may_ask and policy.retry_outside_on_failure
