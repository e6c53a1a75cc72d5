"""The screen of grants: how long each holds, what it matches, and taking one back."""

from __future__ import annotations

from typing import Any

from textual.app import App

from tertulia.terminal.approvals.grants import GrantsScreen
from tests.terminal.approvals.panel_app import BoardOfQuestions, HandClock
from tests.terminal.screen import screen_text

GRANTS: list[dict[str, Any]] = [
    {"grant_id": "g-1", "scope": "session", "conversation_id": None, "matches": ["exec: make test", "directory: /x"],
     "expires_in_s": 3_600.0, "uses": 12},
    {"grant_id": "g-2", "scope": "conversation", "conversation_id": "c-tester", "matches": ["exec: ls\x1b[2J"],
     "expires_in_s": None, "uses": 0},
]  # fmt: skip


class GrantsApp(App[None]):
    def __init__(self) -> None:
        super().__init__(ansi_color=True)
        self.clock = HandClock()
        self.grants = GrantsScreen(BoardOfQuestions().board, clock=self.clock)
        self.revoked: list[str] = []

    def on_mount(self) -> None:
        self.push_screen(self.grants)

    def on_grants_screen_revoke_requested(self, message: GrantsScreen.RevokeRequested) -> None:
        self.revoked.append(message.grant_id)


async def test_grants_are_listed_with_the_time_left_and_uses_and_taken_back() -> None:
    app = GrantsApp()
    async with app.run_test(size=(100, 20)) as pilot:
        await pilot.pause()
        assert "No grant holds" in screen_text(app)
        app.grants.show(GRANTS)
        app.clock.seconds = 600
        app.grants.refresh()
        await pilot.press("down")
        await pilot.pause()
        text = screen_text(app)
        assert "2 grants" in text
        assert "50 min" in text
        assert "used 12×" in text
        assert "not used" in text
        assert "for tester" in text
        assert "to the end" in text
        assert "\x1b" not in text
        await pilot.press("up", "enter")
        await pilot.pause()
        assert "directory: /x" in screen_text(app)
        await pilot.press("x")
        await pilot.pause()
        assert app.revoked == ["g-1"]
        app.grants.show(GRANTS[1:], "make test is asked about again")
        await pilot.pause()
        assert "1 grant  make test is asked about again" in screen_text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, GrantsScreen)
