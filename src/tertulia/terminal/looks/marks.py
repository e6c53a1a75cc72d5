"""The marks of the screen, in two sets: signs of Unicode, and ASCII for terminals and fonts that have no others."""

from __future__ import annotations

from typing import Literal

import msgspec

from tertulia.view.conversation_view import ConversationState
from tertulia.view.text import ASCII_MARKS, STATE_MARKS

MarksName = Literal["unicode", "ascii"]


class PanelMarks(msgspec.Struct, frozen=True, kw_only=True):
    """One set of marks; each takes one cell."""

    states: dict[ConversationState, str]
    bar: str
    """Stands before what is seen or chosen."""
    branch: str
    """Stands before a conversation below another one."""
    folded: str
    """Stands after a conversation whose children are hidden."""
    arrow: str
    """Stands between the conversations of a chain."""
    dot: str
    full: str
    empty: str
    done: str
    now: str
    rule: str
    """A line between parts of the screen."""


UNICODE = PanelMarks(
    states=STATE_MARKS,
    bar="▌",
    branch="└ ",
    folded="▸",
    arrow="›",
    dot="·",
    full="█",
    empty="░",
    done="✓",
    now="›",
    rule="─",
)
ASCII = PanelMarks(
    states=ASCII_MARKS,
    bar="|",
    branch="` ",
    folded="+",
    arrow=">",
    dot="-",
    full="#",
    empty=".",
    done="x",
    now=">",
    rule="-",
)
SETS: dict[MarksName, PanelMarks] = {"unicode": UNICODE, "ascii": ASCII}
