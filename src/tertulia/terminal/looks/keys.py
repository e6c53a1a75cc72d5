"""The global keys, the names by which `[tui.keys]` changes any key, and the list that `?` shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from textual.binding import Binding, BindingType
from textual.widget import Widget

from tertulia.errors import InvalidParamsError
from tertulia.protocol.name_hints import name_hint

_SIGNS = {
    "slash": "/",
    "question_mark": "?",
    "escape": "Esc",
    "enter": "Enter",
    "space": "Space",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "pagedown": "PageDown",
    "pageup": "PageUp",
    "home": "Home",
    "end": "End",
    "tab": "Tab",
    "backspace": "Backspace",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "full_stop": ".",
    "colon": ":",
    "equals_sign": "=",
}


class KeyRow(msgspec.Struct, frozen=True):
    """A key that works in every part of the screen."""

    name: str
    keys: str
    """Keys as Textual writes them, separated by commas."""
    action: str
    text: str
    over_widgets: bool = True
    """Whether it works even where a widget uses the same key."""


EVERYWHERE: tuple[KeyRow, ...] = (
    KeyRow("palette", "ctrl+k", "press('palette')", "find a command or a conversation"),
    KeyRow("tree", "ctrl+t", "press('tree')", "go to the conversations, and back"),
    KeyRow("weave", "ctrl+g", "press('weave')", "all conversations in one stream, or one again"),
    KeyRow("rights", "ctrl+r", "press('rights')", "what the seen conversation may do, and who decided that"),
    KeyRow("sessions", "f2", "press('sessions')", "stored sessions"),
    KeyRow("side", "f3", "press('side')", "show or hide rights, plan, context and MCP servers"),
    KeyRow("next_question", "f6", "press('next_question')", "go to the next question; `]a` does too"),
    KeyRow("parent", "ctrl+up", "press('parent')", "show the conversation above"),
    KeyRow("child", "ctrl+down", "press('child')", "show the first conversation below, or the next beside it"),
    KeyRow("help", "f1", "press('help')", "this page; `?` shows it too where no text is typed"),
    KeyRow("question_mark", "question_mark", "press('help')", "this page", over_widgets=False),
    KeyRow("interrupt", "escape", "press('interrupt')", "stop what runs; twice: edit an earlier message", False),
    KeyRow("print", "ctrl+o", "press('print')", "print the transcript to the scrollback"),
    KeyRow("quit", "ctrl+c", "press('quit')", "twice: close the session and leave"),
    KeyRow("suspend", "ctrl+z", "press('suspend')", "stop the program for a while; `fg` goes on"),
    KeyRow("repaint", "ctrl+l", "press('repaint')", "draw the screen anew"),
)


def bindings() -> list[Binding]:
    """The bindings of the global keys, for the application."""
    return [
        Binding(row.keys, row.action, row.text, show=False, priority=row.over_widgets, id=f"app.{row.name}")
        for row in EVERYWHERE
    ]


_FAR = 1_000_000
"""More rows than any list has: a step of so many ends at its end."""


class MovementKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys that move in a list, as Textual writes them; an empty text: there is no such key."""

    down: str = "j,down"
    up: str = "k,up"
    page_down: str = "pagedown"
    page_up: str = "pageup"
    first: str = "g,home"
    last: str = "G,end"


_USUAL_KEYS = MovementKeys()


def movement_bindings(
    part: str,
    keys: MovementKeys = _USUAL_KEYS,
    *,
    move: str = "move",
    page: tuple[str, int] = ("page", 1),
    texts: Mapping[str, str] | None = None,
) -> list[BindingType]:
    """The bindings that move in a list of rows.

    Args:
        part: The part of the screen, the first half of the name of each key.
        keys: Its keys.
        move: The action that moves by a number of rows.
        page: The action that moves by a page, and its argument for one page.
        texts: By the name of a key, what the list of keys says about it where that is not the usual text.
    """
    action, step = page
    rows = (
        ("down", f"{move}(1)", "down"),
        ("up", f"{move}(-1)", "up"),
        ("page_down", f"{action}({step})", "a page down"),
        ("page_up", f"{action}({-step})", "a page up"),
        ("first", f"{move}({-_FAR})", "to the top"),
        ("last", f"{move}({_FAR})", "to the end"),
    )
    own = texts or {}
    return [
        Binding(pressed, act, own.get(name, text), id=f"{part}.{name}")
        for name, act, text in rows
        if (pressed := getattr(keys, name))
    ]


def row_bindings(move: str = "move") -> list[BindingType]:
    """The keys of a screen without a list of keys that go to the next row and the one before."""
    return [Binding("down,j", f"{move}(1)", show=False), Binding("up,k", f"{move}(-1)", show=False)]


def bindings_of(kinds: Iterable[type[Widget]]) -> list[tuple[str, Binding]]:
    """Every key of these widgets that has a description, with the name of the widget's part of the screen."""
    found: list[tuple[str, Binding]] = []
    for kind in kinds:
        for binding in kind.BINDINGS:
            if isinstance(binding, Binding) and binding.description:
                part = binding.id.partition(".")[0] if binding.id else kind.__name__.casefold()
                found.append((part, binding))
    return found


def parse_keys(overrides: Mapping[str, str], kinds: Iterable[type[Widget]]) -> dict[str, str]:
    """The keys of `[tui.keys]`, by the names of bindings.

    Args:
        overrides: By the name of a key, as `/keys` shows it: the keys instead, with commas between.
        kinds: The widgets whose keys can be changed.

    Raises:
        InvalidParamsError: There is no key of that name, or none is given for it; it says what there is.
    """
    names = {binding.id for binding in bindings()}
    names |= {binding.id for _, binding in bindings_of(kinds) if binding.id is not None}
    known = sorted(name for name in names if name is not None)
    keymap: dict[str, str] = {}
    for name, keys in overrides.items():
        full = name if name in known else f"app.{name}"
        if full not in known:
            raise InvalidParamsError(f"[tui.keys]: there is no key {name[:40]!r}; {name_hint(name, known)}")
        if not keys.strip():
            raise InvalidParamsError(f'[tui.keys]: {name} has no key; name one, as in {name} = "ctrl+y"')
        keymap[full] = keys
    return keymap


def show_keys(keys: str) -> str:
    """Keys as people write them: `Ctrl+K`, `j ↓`."""
    return " ".join(_show_key(key) for key in keys.split(","))


def _show_key(key: str) -> str:
    *modifiers, last = key.strip().split("+")
    name = _SIGNS.get(last, last.upper() if modifiers or (last[:1] == "f" and last[1:].isdigit()) else last)
    return "+".join([*(modifier.capitalize() for modifier in modifiers), name])


class KeyPair:
    """Recognises two keys that are pressed one after the other. The first one still does what it does alone."""

    __slots__ = ("_began", "_first", "_second")

    def __init__(self, first: str, second: str) -> None:
        self._first, self._second = first, second
        self._began = False

    def take(self, key: str) -> bool:
        """Note a key; True where it is the second of the two."""
        began, self._began = self._began, key == self._first
        return began and key == self._second


def next_question_keys() -> KeyPair:
    """`]a`: the next conversation that asks, where no text is typed."""
    return KeyPair("right_square_bracket", "a")
