"""Questions of a real session, answered in the real application."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from tertulia.terminal.app import TerminalApp
from tertulia.testing import call, say
from tests.terminal.screen import screen_text, until, until_shown

MakeApp = Callable[..., TerminalApp]


async def send(app: TerminalApp, pilot: Pilot[Any], text: str) -> None:
    await until(lambda: app.scene.seen is not None, "the session did not start")
    app.scene.panes.composer.insert(text)
    await pilot.press("enter")


async def press_in_panel(app: TerminalApp, pilot: Pilot[Any], *keys: str) -> None:
    """Go to the panel, wait until it takes answers, and press."""
    await pilot.press("f6")
    rules, clock = app.scene.panes.approvals.rules, app.scene.clock
    await until(lambda: rules.may_answer(clock.monotonic()), "the panel takes no answer")
    await pilot.press(*keys)


async def test_a_command_is_refused_with_a_sentence_that_the_model_reads(make_app: MakeApp) -> None:
    command = call("shell", {"command": ["touch", "made"]})
    app = make_app(say("", command), say("I use the other one."), approval_policy="untrusted")
    async with app.run_test(size=(80, 24)) as pilot:
        await send(app, pilot, "make it")
        await until_shown(app, "root asks to run a command")
        assert "$ touch made" in screen_text(app)
        await press_in_panel(app, pilot, "m")
        await pilot.press(*"not here", "enter")
        await until_shown(app, "I use the other one.")
        assert "not here" in screen_text(app)
        assert "asks to run" not in screen_text(app)
        assert app.scene.panes.composer.is_idle


async def test_a_plan_is_carried_out_only_after_a_yes(make_app: MakeApp, tmp_path: Path) -> None:
    app = make_app(say("1. Write made."), say("It is done."), approval_policy="untrusted")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(lambda: app.scene.seen is not None)
        await pilot.press("shift+tab", "shift+tab")
        await until_shown(app, "plan >")
        await send(app, pilot, "plan it")
        await until_shown(app, "has a plan and has written nothing yet")
        app.scene.panes.approvals.focus()
        rules, clock = app.scene.panes.approvals.rules, app.scene.clock
        await until(lambda: rules.may_answer(clock.monotonic()))
        await pilot.press("y")
        await until_shown(app, "It is done.")
        assert "plan >" not in screen_text(app)
        assert "has a plan" not in screen_text(app)
