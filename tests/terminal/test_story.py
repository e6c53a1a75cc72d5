"""Issue 22, "Done when": a stranger on 80x24, with three conversations, a question about 20 KB, a fork and a copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tertulia.session.settings.settings import current_environment
from tests.terminal.approvals.test_in_session import press_in_panel, send
from tests.terminal.conftest import MakeApp
from tests.terminal.real_terminal import Tmux
from tests.terminal.screen import screen_text, until, until_shown
from tests.terminal.story import CODE, PATCH_LINES, replies


async def test_a_stranger_refuses_understands_goes_back_forks_and_copies(make_app: MakeApp, tmp_path: Path) -> None:
    """The short form; the whole program in a real terminal does the same below."""
    app = make_app(*replies(), approval_policy="untrusted", storage_policy="full")
    async with app.run_test(size=(80, 24)) as pilot:
        app.scene.home = current_environment().home
        await send(app, pilot, "Have it written")
        await until_shown(app, "root › reviewer › patcher asks to change files")
        assert f"big.py +{PATCH_LINES} −0 new" in screen_text(app)
        await press_in_panel(app, pilot, "m")
        await pilot.press(*"make it smaller", "enter")
        await until_shown(app, "root › reviewer asks to run a command")
        assert "$ rm -rf build" in screen_text(app)
        assert "because  the approval policy is untrusted: only commands that are known" in screen_text(app)
        await press_in_panel(app, pilot, "n")
        await until(lambda: not app.scene.board.task_owners)
        app.scene.see(app.scene.board.root_id)
        await until_shown(app, "That is all.")
        app.scene.panes.composer.take_focus()
        await until_shown(app, "Tab transcript   F1 help")
        await pilot.press("tab")
        await until_shown(app, "Y copy code   f fork here")
        await pilot.press("Y")
        await until(lambda: app.clipboard == CODE)
        app.scene.panes.composer.take_focus()
        await pilot.press(*"/prompt", "enter")
        await until_shown(app, "/prompt 1 shows the request before it, /replay goes to any")
        await pilot.press("escape", *"/prompt 1", "enter")
        await until_shown(app, "/prompt 2 shows the request before it")
        assert "items         2, " in screen_text(app)
        await pilot.press("escape", *"/prompt 9", "enter")
        await until_shown(app, "no request to a model stands before this")
        await pilot.press(*"/replay", "enter")
        await until_shown(app, "task complete")
        await pilot.press("shift+left", "shift+left", "p")
        await until_shown(app, "rebuilt, byte for byte what was sent")
        await pilot.press("escape", "f")
        await until_shown(app, "a copy of root up to there")
        await until(lambda: len(app.scene.board.conversations) == 4)
        await until_shown(app, "▌ Have it written")
    assert not (tmp_path / "work" / "big.py").exists()
    texts = [
        cell.text for view in app.scene.board.conversations.values() for cell in view.cells if hasattr(cell, "text")
    ]
    assert any("make it smaller" in text for text in texts)


@pytest.mark.torture
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_the_whole_program_in_a_terminal_of_80x24_does_it(tmux: Tmux) -> None:
    """The copy is read from the clipboard of the terminal (OSC 52)."""
    tmux.run("set", "-g", "set-clipboard", "on")
    tmux.run("resize-window", "-x", "80", "-y", "24")
    tmux.start(*replies(), more="untrusted")
    tmux.until("message   / commands")
    tmux.type("Have it written", "Enter")
    tmux.until("root › reviewer › patcher asks to change files")
    tmux.answer("m", "no, because:")
    tmux.type("make it smaller", "Enter")
    seen = tmux.until("root › reviewer asks to run a command")
    assert "because  the approval policy is untrusted" in seen
    tmux.answer("n", "denied by terminal")
    tmux.type("Escape", "C-Up", "C-Up", "C-Up")
    tmux.until("That is all.")
    tmux.type("Tab")
    tmux.until("›  ✓ done")
    tmux.type("Y")
    tmux.until("copied ")
    assert tmux.clipboard() == CODE
    tmux.type("Escape")
    tmux.until("\n   ✓ done")
    tmux.type("/replay", "Enter")
    tmux.until("task complete")
    tmux.type("S-Left", "S-Left", "p")
    tmux.until("rebuilt, byte for byte what was sent")
    tmux.type("Escape")
    tmux.until("▌ Have it written")
    tmux.type("f")
    tmux.until("a copy of root up to there")
    assert not (tmux.folder / "big.py").exists()
    tmux.type("C-c", "C-c")
    tmux.until("To go on: tertulia resume")
