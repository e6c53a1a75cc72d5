"""The last lines of a plain terminal: the last exchange, what the session cost, and how to go on with it.

The exchange stands above already, as it came: here it is one line for each side, so that none is read twice.
"""

from __future__ import annotations

from tertulia.cli.output.terminal import shorten
from tertulia.terminal.device.farewell import last_exchange, session_lines
from tertulia.view.board import Board


def last_lines(board: Board, *, stored: bool) -> list[str]:
    """The lines; none where nothing was written. `stored`: whether the session can be resumed."""
    request, answer = last_exchange(board)
    if request is None:
        return []
    lines = [f"You wrote last: {shorten(request)}"]
    if answer:
        lines.append(f"The answer was: {shorten(answer)}")
    return [*lines, *session_lines(board, stored=stored)]
