"""Draws a question as rows: who asks for which conversation, what exactly, where, in which sandbox, why, and the keys.

Pure. All texts from outside pass through `display_text` first, and their rows begin with a bar or follow a label of
ours, so that they cannot imitate the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec
from rich.cells import cell_len

from tertulia.policy.display_text import printable, visible
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_events import ApprovalRequest, ApprovalResolved
from tertulia.terminal.approvals.folding import BAR, fold_line, wrap_words
from tertulia.terminal.approvals.forms import ElicitationForm
from tertulia.terminal.approvals.plan_question import PlanQuestion
from tertulia.terminal.panels.activity import asker
from tertulia.terminal.panels.lines import Part, fit
from tertulia.view.board_state import BoardState
from tertulia.view.cells import ApprovalCell, ElicitationCell
from tertulia.view.text import name_of

PanelQuestion = ApprovalCell | ElicitationCell | PlanQuestion
Row = list[Part]
"""One row of the screen: texts with the names of their styles."""
Scope = Literal["once", "conversation", "session", "project"]

TTLS: tuple[tuple[float | None, str], ...] = (
    (None, "until it closes"),
    (300.0, "for 5 min"),
    (3_600.0, "for 1 h"),
    (28_800.0, "for 8 h"),
)
SCOPE_KEYS: dict[str, Scope] = {"y": "once", "c": "conversation", "s": "session", "p": "project"}
_INDENT = "  "
_LABEL = 9
_MAX_NAME = 20
"""Cells of a conversation's name among the keys."""
_ACTS = {
    "exec": "asks to run a command",
    "patch": "asks to change files",
    "escalation": "asks to leave the sandbox",
    "network": "asks to reach a host",
}


class CardState(msgspec.Struct, frozen=True, kw_only=True):
    """What the person has chosen so far, and what the panel knows beside the question itself."""

    position: int = 1
    count: int = 1
    ttl: int = 0
    """How long a yes holds: an index of `TTLS`."""
    alike: int = 1
    """How many open questions have the same digest, this one included."""
    for_all: bool = False
    """Whether the answer counts for all questions with the same digest."""
    show_matches: bool = False
    whole_text: str | None = None
    """The full text of `detail`, where the event had only a part of it."""
    note: str = ""
    """A sentence of the program below the question: why a key did nothing, what was sent."""


def names_of(board: BoardState, ids: Sequence[ConversationId]) -> str:
    """The conversations of a chain by their names: `root › tester`."""
    return " › ".join(_name(board, id) for id in ids)


def _name(board: BoardState, id: ConversationId) -> str:
    view = board.conversations.get(id)
    return visible(name_of(view, board.root_id)) if view is not None else visible(str(id)[:8])


def time_left(expires_at: str | None, now: float) -> str:
    """The remaining time as `4:12`; empty where the question does not expire."""
    if expires_at is None:
        return ""
    seconds = max(int(datetime.fromisoformat(expires_at).timestamp() - now), 0)
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def head_row(question: PanelQuestion, board: BoardState, state: CardState, now: float) -> tuple[Row, Row]:
    """Who asks for which conversation; on the right how many questions wait, and the time left."""
    count = f"{state.position} of {state.count}" if state.count > 1 else ""
    match question:
        case ApprovalCell(request=request):
            chain = names_of(board, [*request.chain, request.conversation_id])
            who: Row = [(f"{chain} ", "magenta"), (_act(request), "bold yellow")]
            left = time_left(request.expires_at, now)
        case ElicitationCell(request=request):
            by = asker(question, board)
            chain = names_of(board, [*request.chain, *([] if by is None else [by])])
            who = [
                (f"{chain}: " if chain else "", "magenta"),
                (f"the MCP server {visible(request.server)} asks you", "bold yellow"),
            ]
            left = ""
        case PlanQuestion(conversation_id=id):
            who = [(f"{_name(board, id)} ", "magenta"), ("has a plan and has written nothing yet", "bold yellow")]
            left = ""
    right = ", ".join(part for part in (count, left) if part)
    return who, [(f"  {right} " if right else "", "dim")]


def _act(request: ApprovalRequest) -> str:
    if request.kind in _ACTS:
        return _ACTS[request.kind]
    tool = printable(request.tool or "a tool")
    return f"asks to use {tool} of {printable(request.server)}" if request.server else f"asks to use {tool}"


# ---- what exactly


def body_rows(question: PanelQuestion, state: CardState, form: ElicitationForm | None, width: int) -> list[Row]:
    """All of what is asked; the panel cuts what does not fit and says so."""
    match question:
        case ApprovalCell(request=request):
            if state.show_matches:
                return _match_rows(request, width)
            return _file_rows(request, width) + detail_rows(request, state.whole_text or request.detail, width)
        case ElicitationCell(request=request):
            rows: list[Row] = [[(row, "")] for row in _barred(visible(request.message, lines=True), width)]
            if request.url is not None:
                rows += _labelled("page", visible(request.url), width, "underline")
            return rows + ([] if form is None else form.rows(width))
        case PlanQuestion(text=text):
            return [[(row, "")] for row in _barred(visible(text, lines=True), width)]


def _barred(text: str, width: int) -> list[str]:
    return [row for line in text.split("\n") for row in fold_line(BAR + line, width)]


def detail_rows(request: ApprovalRequest, detail: str, width: int) -> list[Row]:
    """The text of a request: lines from outside have a bar, except the command at the beginning."""
    lines = detail.split("\n")
    if request.kind in ("exec", "escalation") and request.command is not None and lines[0] == request.command:
        lines[0] = f"$ {lines[0]}"
    own = {f"in {request.cwd}", "The patch:"}
    rows: list[Row] = []
    for line in lines:
        if line not in own:
            style = line_style(line, is_patch=request.kind == "patch")
            rows += [[(row, style)] for row in fold_line(line, width)]
    return rows


def line_style(line: str, *, is_patch: bool) -> str:
    """The style of a line of a request: dim for a line of the program, diff colours for a line of a patch."""
    if line.startswith("$ "):
        return "bold"
    if not line.startswith(BAR):
        return "dim"
    if not is_patch:
        return ""
    text = line[len(BAR) :]
    if text.startswith("***"):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(text[:1], "")


def _file_rows(request: ApprovalRequest, width: int) -> list[Row]:
    kinds = {"add": " new", "delete": " deleted", "move": " moved"}
    rows: list[Row] = [[]]
    used = 0
    for file in request.files:
        path = printable(file.path)
        parts: Row = [(path, "bold"), (f" +{file.added}", "green"), (f" −{file.removed}", "red")]
        parts.append((f"{kinds.get(file.kind, '')}   ", "dim"))
        size = sum(cell_len(text) for text, _ in parts)
        if used and used + size > width:
            rows.append([])
            used = 0
        rows[-1] += parts
        used += size
    return rows if request.files else []


def matched_texts(request: ApprovalRequest) -> list[str]:
    """All that a grant will match. A patch is not repeated: it stands above, whole, in lines that can be read."""
    if request.kind != "patch":
        return request.matches
    return ["patch: exactly this one, with every line of it", *request.matches[1:]]


def _match_rows(request: ApprovalRequest, width: int) -> list[Row]:
    rows: list[Row] = [[("A yes that holds longer matches exactly this, and nothing else:", "dim")]]
    for match in matched_texts(request):
        rows += [[(row, "")] for row in _barred(printable(match), width)]
    return rows


# ---- where, in which sandbox, why


def fact_rows(question: PanelQuestion, width: int) -> list[Row]:
    """Where it would happen, how it is confined, why it is asked, and what changed since."""
    if not isinstance(question, ApprovalCell):
        return []
    request = question.request
    rows: list[Row] = []
    if request.cwd is not None:
        rows += _labelled("in", request.cwd, width)
    if request.sandbox is not None:
        leaves = request.kind == "escalation" or request.sandbox.startswith("danger")
        text = f"LEAVES IT: {request.sandbox}" if leaves else request.sandbox
        rows += _labelled("sandbox", text, width, "bold red" if leaves else "")
    if request.because is not None:
        rows += _labelled("because", f"{request.because.rule} (set by {_set_by(request.because.set_by)})", width)
    if request.changed:
        rows += _labelled("CHANGED", f"since the last yes: {', '.join(request.changed)}", width, "bold yellow")
    return rows


def fact_lines(request: ApprovalRequest) -> list[str]:
    """The same facts in full, a line each, with everything that a grant will match."""
    rows = fact_rows(ApprovalCell(key="", ts="", request=request), 1 << 20)
    matches = [f"{BAR}{printable(match)}" for match in matched_texts(request)]
    return ["", *("".join(text for text, _ in row) for row in rows), "A yes that holds longer matches:", *matches]


def _set_by(value: str) -> str:
    kind, _, name = value.partition(":")
    return {"agent": f"the agent {name}", "ancestor": f"the conversation {name[:8]} above it"}.get(kind, f"the {kind}")


def _labelled(label: str, text: str, width: int, style: str = "") -> list[Row]:
    first, *more = wrap_words(visible(text), max(width - _LABEL, 1))
    return [[(f"{label:<{_LABEL}}", "dim"), (first, style)], *([(" " * _LABEL, ""), (row, style)] for row in more)]


# ---- keys


def key_hints(question: PanelQuestion, board: BoardState, state: CardState) -> list[tuple[str, str]]:
    """The keys that answer this question, each with its meaning; only what the request offers."""
    match question:
        case ApprovalCell(request=request):
            hints = _scope_hints(request, board, state)
            hints += [("n", "no"), ("m", "no, because…")]
            if request.command is not None:
                hints.append(("e", "run this instead…"))
            hints += [("d", "all of it"), ("g", "the question" if state.show_matches else "what a yes matches")]
            if state.alike > 1:
                hints.append(("A", f"{'only this' if state.for_all else f'all {state.alike} alike'}"))
        case ElicitationCell(request=request):
            fill = [] if request.url is not None else [("↑↓", "field"), ("Enter", "fill in"), ("←→ Space", "choose")]
            done = "I have visited it" if request.url is not None else "send"
            hints = [*fill, ("y", done), ("n", "decline"), ("x", "cancel")]
        case PlanQuestion():
            hints = [("y", "carry it out"), ("n", "no"), ("m", "no, because…"), ("d", "all of it")]
    return [*hints, *([("Tab", "next")] if state.count > 1 else [])]


def _scope_hints(request: ApprovalRequest, board: BoardState, state: CardState) -> list[tuple[str, str]]:
    meanings: dict[Scope, str] = {
        "once": "yes, once",
        "conversation": f"for {fit(_name(board, request.conversation_id), _MAX_NAME)}",
        "session": "for the session",
        "project": "for the project",
    }
    hints = [(key, meanings[scope]) for key, scope in SCOPE_KEYS.items() if scope in request.scopes]
    if {"conversation", "session"} & set(request.scopes):
        hints.append(("t", TTLS[state.ttl][1]))
    return hints


def hint_rows(hints: Sequence[tuple[str, str]], width: int, *, style: str = "bold") -> list[Row]:
    """The keys in as many rows as they need, in this style; their meanings have none."""
    rows: list[Row] = [[]] if hints else []
    used = 0
    for key, meaning in hints:
        size = cell_len(key) + cell_len(meaning) + 3
        if used and used + size > width:
            rows.append([])
            used = 0
        rows[-1] += [(key, style), (f" {meaning}  ", "")]
        used += size
    return rows


def answer_text(answer: ApprovalResolved) -> str:
    """By which client, rule or clock a question was answered, in one sentence."""
    decision = "allowed" if answer.decision == "allow" else "denied"
    by = answer.by
    kind = "another client" if by is None else by.kind
    name = "" if by is None or by.name is None else f" {visible(by.name)}"
    match kind:
        case "clock":
            return "no answer came in time, which is a no"
        case "interrupt" | "shutdown":
            return "it was stopped, so there is nothing to answer"
        case "client":
            return f"{decision} by the client{name}"
        case "another client":
            return f"{decision} elsewhere"
        case _:
            return f"{decision} by the {kind}{name}"
