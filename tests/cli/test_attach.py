"""`tertulia attach`: where its token comes from, and what it refuses before it connects."""

from __future__ import annotations

import pytest

from tests.cli.running import Shell
from tests.cli.stored_sessions import Screen, home

URL = "http://127.0.0.1:9"


def test_without_a_terminal_it_says_what_it_needs(shell: Shell) -> None:
    ran = shell.run("attach", URL)
    assert ran.code == 2
    assert "needs a terminal" in ran.err


@pytest.mark.slow
def test_a_token_that_others_can_read_or_that_is_not_there_is_refused(shell: Shell) -> None:
    screen = Screen(shell, "attach", URL)
    screen.until("no token can be read")
    assert screen.close() == 2
    path = home(shell) / "serve.token"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("t" * 64)
    path.chmod(0o644)
    screen = Screen(shell, "attach", URL)
    screen.until("others can read it")
    assert screen.close() == 2
