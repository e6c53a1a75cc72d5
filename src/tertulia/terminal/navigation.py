"""What the global keys do: other conversations, other parts of the screen, and leaving."""

from __future__ import annotations

from collections.abc import Callable

from tertulia.terminal.actions import Actions
from tertulia.terminal.commands.pages import help_page, palette_page
from tertulia.terminal.commands.transcript_text import transcript_text
from tertulia.terminal.device.external_editor import print_to_scrollback
from tertulia.terminal.panels.activity import asker
from tertulia.terminal.scene import Scene

_TWICE_S = 1.5
"""Seconds within which the second of two keys must come."""


class Navigation:
    """One method for each key of `keys.EVERYWHERE`."""

    def __init__(self, scene: Scene, actions: Actions, quit: Callable[[], None]) -> None:
        """`quit`: closes the session and ends the program."""
        self._scene = scene
        self._actions = actions
        self._quit = quit
        self._last: tuple[str, float] = ("", 0.0)
        self._presses: dict[str, Callable[[], None]] = {
            "palette": self._palette,
            "tree": self._tree,
            "weave": self._weave,
            "rights": self._rights,
            "side": scene.toggle_side,
            "next_question": self._next_question,
            "parent": self._parent,
            "child": self._child,
            "help": self._help,
            "interrupt": self._interrupt,
            "quit": self._quit_twice,
            "repaint": self._repaint,
            "print": self._print,
        }

    def press(self, name: str) -> None:
        """Do what the key of this name does."""
        self._presses[name]()
        self._last = name, self._scene.clock.monotonic()

    def _is_second(self, name: str) -> bool:
        return self._last[0] == name and self._scene.clock.monotonic() - self._last[1] <= _TWICE_S

    def _palette(self) -> None:
        if self._scene.panes.page.content is not None and self._scene.panes.page.content.kind == "palette":
            self._scene.leave_page()
        else:
            self._scene.show_page(palette_page(self._scene.board))

    def _help(self) -> None:
        self._scene.show_page(help_page())

    def _tree(self) -> None:
        tree = self._scene.panes.tree
        if tree.has_focus:
            self._scene.panes.composer.take_focus()
        elif tree.display:
            tree.focus()
        else:
            # The terminal is too narrow for the tree: show the same list as a page.
            self._scene.show_page(palette_page(self._scene.board, only_conversations=True))

    def _weave(self) -> None:
        self._scene.toggle_weave()

    def _rights(self) -> None:
        self._scene.show_side()
        self._scene.run(self._actions.explain())

    def _print(self) -> None:
        if (view := self._scene.view) is not None:
            print_to_scrollback(self._scene.app, transcript_text(view))

    def _repaint(self) -> None:
        self._scene.app.refresh(layout=True)
        self._scene.app.screen.refresh(layout=True)

    def _next_question(self) -> None:
        board = self._scene.board
        askers = list(dict.fromkeys(asker(question, board) for question in board.questions.values()))
        if not askers:
            self._scene.say("nothing is asked")
            return
        place = askers.index(self._scene.seen) + 1 if self._scene.seen in askers else 0
        self._scene.see(askers[place % len(askers)])
        self._scene.panes.approvals.focus()

    def _parent(self) -> None:
        view = self._scene.view
        if view is not None and view.parent_id is not None:
            self._scene.see(view.parent_id)

    def _child(self) -> None:
        """See the next conversation in the order of the tree: the first child, else the next sibling, else that of a
        parent.
        """
        order = [view.id for view in self._scene.board.tree()]
        seen = self._scene.seen
        if seen is not None and seen in order and (following := order[order.index(seen) + 1 :]):
            self._scene.see(following[0])

    def _interrupt(self) -> None:
        scene = self._scene
        view = scene.view
        scene.say("")
        if scene.panes.page.content is not None:
            scene.leave_page()
        elif scene.leave_side_page():
            scene.panes.composer.take_focus()
        elif view is not None and view.task_id is not None:
            chain = scene.board.chain(view.id)
            scene.run(self._actions.interrupt(view.id))
            scene.say(f"stopping {' › '.join(map(scene.name, chain))}")
        else:
            scene.panes.composer.take_focus()

    def _quit_twice(self) -> None:
        if self._is_second("quit"):
            self._quit()
        else:
            self._scene.say("Ctrl+C once more closes the session and leaves")
