"""An approval or a question of an MCP server as lines for a person at a terminal, and what a typed answer means.

Pure: prints and reads nothing. What is shown is what a yes will cover; an answer that is not understood is no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

import msgspec

from tertulia.cli.output.tables import split_to_width
from tertulia.cli.output.work_lines import Line
from tertulia.policy.approvals.approval_request import GrantScope, hidden_text_notice
from tertulia.protocol.tool_events import ApprovalRequest, ElicitationRequest

_SCOPE_KEYS: dict[str, tuple[GrantScope, str]] = {
    "y": ("once", "[y]es once"),
    "c": ("conversation", "[c]onversation"),
    "s": ("session", "[s]ession"),
    "p": ("project", "[p]roject"),
}
_WORDS = {"yes": "y", "once": "y", "conversation": "c", "session": "s", "project": "p", "no": "n", "more": "m"}
_SCOPE_HELP: dict[GrantScope, str] = {
    "once": "y allows it this once",
    "conversation": "c allows exactly the same again in this conversation",
    "session": "s allows exactly the same again in this session",
    "project": "p allows exactly the same again in this project (30 days, see `tertulia grants`)",
}

_BAR = "│ "
_GOES_ON = "… "
_NARROWEST = 20
"""Columns. A terminal that has fewer wraps lines as it likes."""


class ApprovalAnswer(msgspec.Struct, frozen=True):
    """What a person typed, understood."""

    decision: Literal["allow", "deny", "more"]
    """`more`: they want to see all of it before they decide."""
    scope: GrantScope | None = None
    message: str | None = None

    def fields(self) -> dict[str, Any]:
        """The further fields of `approval/resolve` for this answer."""
        params = {"scope": self.scope, "message": self.message}
        return {name: value for name, value in params.items() if value is not None}


def question_lines(request: ApprovalRequest, width: int | None = None) -> list[Line]:
    """What exactly is asked, where, in which sandbox, why. `width`: the columns of the terminal, if they are known."""
    title, *more = folded_lines(request.title, width)
    lines: list[Line] = [(("? ", "yellow"), (title, "bold")), *((("  ", "plain"), (line, "bold")) for line in more)]
    lines += [(f"  {line}",) for line in folded_lines(request.detail, width)]
    if request.sandbox is not None:
        lines.append((("  sandbox: ", "dim"), request.sandbox))
    if notice := hidden_text_notice(request.hidden, request.size, request.digest):
        lines.append(((f"  {notice}", "red"),))
    return lines


def folded_lines(text: str, width: int | None) -> list[str]:
    """The lines of a text for an indentation of two columns. Each row of the terminal that goes on with a line begins
    with a mark: or the rest of a long command could look like a line of ours."""
    lines = text.split("\n")
    if width is None or width < _NARROWEST:
        return lines
    shown: list[str] = []
    for line in lines:
        goes_on = _BAR + _GOES_ON if line.startswith(_BAR) else _GOES_ON
        first, *rest = split_to_width(line.expandtabs(4), width - 2 - len(goes_on))
        shown += [first, *(goes_on + piece for piece in rest)]
    return shown


def answer_prompt(request: ApprovalRequest) -> Line:
    """The keys that this request can be answered with."""
    keys = [label for scope, label in _SCOPE_KEYS.values() if scope in request.scopes]
    more = ["[m]ore"] if request.hidden else []
    return (("  ".join([*keys, "[n]o, with a reason", *more]), "yellow"), " › ")


def answer_help(scopes: Sequence[GrantScope]) -> str:
    """What each key that was offered does."""
    allowing = [text for scope, text in _SCOPE_HELP.items() if scope in scopes]
    return "; ".join([*allowing, "n refuses it, and what follows is told to the model as the reason"])


def parse_answer(typed: str, scopes: Sequence[GrantScope]) -> ApprovalAnswer | None:
    """The answer in a typed line; None where it is none of those that were offered."""
    word, _, rest = typed.strip().partition(" ")
    # `no, because …` reads like `n because …`.
    key = _WORDS.get(word.rstrip(",:").lower(), word.rstrip(",:").lower())
    if key == "n":
        return ApprovalAnswer("deny", message=rest.strip() or None)
    if rest.strip():
        return None
    if key == "m":
        return ApprovalAnswer("more")
    scope = _SCOPE_KEYS.get(key, (None, ""))[0]
    return None if scope is None or scope not in scopes else ApprovalAnswer("allow", scope)


# ---- what an MCP server asks


def elicitation_lines(request: ElicitationRequest, width: int | None = None) -> list[Line]:
    """Which server asks, and in which words."""
    lines: list[Line] = [(("? ", "yellow"), (f"the MCP server {request.server} asks", "bold"))]
    room = None if width is None else width - len(_BAR)
    lines.extend(((f"  {_BAR}", "dim"), line) for line in folded_lines(request.message, room))
    if request.url is not None:
        lines.append((("  page: ", "dim"), request.url))
    return lines


class FormField(msgspec.Struct, frozen=True):
    """One value that a server wants."""

    name: str
    schema: dict[str, Any]
    required: bool

    @property
    def prompt(self) -> Line:
        """How it is asked for."""
        allowed = "/".join(map(str, self.schema.get("enum", ())))
        kind = allowed or ("yes/no" if self.schema.get("type") == "boolean" else str(self.schema.get("type", "string")))
        label = str(self.schema.get("title") or self.name)
        optional = "" if self.required else ", empty leaves it out"
        return ((f"  {label}", "yellow"), (f" ({kind}{optional})", "dim"), " › ")

    def parse(self, typed: str) -> Any:
        """The value that was typed; ValueError says what it must be."""
        text = typed.strip()
        match self.schema.get("type"):
            case "boolean":
                if text.lower() not in ("y", "yes", "true", "n", "no", "false"):
                    raise ValueError("answer yes or no")
                return text.lower() in ("y", "yes", "true")
            case "integer" | "number" as kind:
                return _number(text, whole=kind == "integer")
            case _:
                return text


def form_fields(request: ElicitationRequest) -> list[FormField]:
    """The values that the server asks for, in its order."""
    properties = cast("dict[str, Any]", request.schema.get("properties") or {})
    required = cast("list[str]", request.schema.get("required") or [])
    return [FormField(name, cast("dict[str, Any]", schema), name in required) for name, schema in properties.items()]


def _number(text: str, *, whole: bool) -> int | float:
    try:
        return int(text) if whole else float(text)
    except ValueError:
        raise ValueError("answer a whole number" if whole else "answer a number") from None
