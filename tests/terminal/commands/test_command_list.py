"""The one list of slash commands."""

from __future__ import annotations

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.terminal.commands.command_list import BY_NAME, COMMANDS, find_command
from tertulia.terminal.commands.pages import help_page, palette_page
from tertulia.view.board_state import BoardState


def test_every_command_is_in_the_help_and_in_the_palette() -> None:
    for page in (help_page(), palette_page(BoardState())):
        shown = {row.text.split()[0] for row in page.rows if row.text.startswith("/") and len(row.text) > 2}
        assert shown == {f"/{name}" for name in BY_NAME}
    assert len(BY_NAME) == len(COMMANDS)


def test_an_unknown_command_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(InvalidParamsError, match="there is no command /modle; did you mean model"):
        find_command("modle")
