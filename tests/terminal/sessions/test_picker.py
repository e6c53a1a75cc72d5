"""The picker: the newest first, searched, described as far as it is seen, and asked before it deletes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textual.app import App, ComposeResult

from tertulia.rollout.sqlite.session_index import list_sessions
from tertulia.terminal.sessions.picker import SessionDetails, SessionPicker, StoredSession
from tertulia.terminal.sessions.picker_screen import PickedSession, PickerApp
from tests.terminal.screen import screen_text, until, until_shown
from tests.terminal.sessions.made_sessions import store_session

MANY = [StoredSession(f"{number:08d}", float(-number), "openai/gpt-5.2", 3) for number in range(10_000)]


class _Alone(App[None]):
    """A picker without a reader."""

    def __init__(self) -> None:
        super().__init__()
        self.picker = SessionPicker()
        self.messages: list[Any] = []

    def compose(self) -> ComposeResult:
        yield self.picker

    def on_session_picker_details_wanted(self, message: SessionPicker.DetailsWanted) -> None:
        self.messages.append(message)

    def on_session_picker_session_chosen(self, message: SessionPicker.SessionChosen) -> None:
        self.messages.append(message)


async def test_of_ten_thousand_sessions_only_those_that_are_seen_are_described() -> None:
    app = _Alone()
    async with app.run_test(size=(100, 30)) as pilot:
        app.picker.focus()
        app.picker.show(MANY, 100.0, "many")
        await pilot.pause()
        assert sum(len(message.ids) for message in app.messages) <= 30
        await pilot.press("G")
        await pilot.pause()
        assert app.picker.chosen == MANY[-1]
        assert sum(len(message.ids) for message in app.messages) <= 60
        app.picker.describe({MANY[-1].id: SessionDetails("Fix the \x1b[31mbasket", in_use=True)})
        await pilot.pause()
        shown = screen_text(app)
        assert "in use" in shown
        assert "basket" in shown
        assert "\x1b" not in shown


async def test_keys_tell_what_is_wanted_with_the_chosen_session() -> None:
    app = _Alone()
    async with app.run_test(size=(80, 24)) as pilot:
        app.picker.focus()
        app.picker.show(MANY[:3], 100.0, "three")
        await pilot.press("j", "enter", "f", "r", "w", "d")
        chosen = [(m.session_id, m.act) for m in app.messages if isinstance(m, SessionPicker.SessionChosen)]
    assert chosen == [(MANY[1].id, act) for act in ("resume", "fork", "replay", "watch", "delete")]


async def test_a_stored_session_is_found_by_its_text_and_chosen(home: Path, work: Path) -> None:
    first = await store_session(work, "Good morning.", messages=("about the basket",))
    await store_session(work, "Good evening.", messages=("about the garden",))
    app = PickerApp(lambda: home)
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, "2 stored sessions")
        await until_shown(app, "about the basket")
        await pilot.press("slash", *"basket", "enter")
        await until_shown(app, "1 with 'basket'")
        await pilot.press("escape")
        await until_shown(app, "2 stored sessions")
        await pilot.press("slash", *"basket", "enter")
        await until_shown(app, "1 with 'basket'")
        await pilot.press("r")
        await until(lambda: app.return_value is not None)
    assert app.return_value == PickedSession(first, "replay")


async def test_deleting_asks_and_only_a_yes_deletes(home: Path, work: Path) -> None:
    await store_session(work, "Good morning.")
    app = PickerApp(lambda: home)
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, "1 stored session")
        await pilot.press("d")
        await until_shown(app, "for good?")
        await pilot.press("n")
        await pilot.press("y")
        assert len(list_sessions(home)) == 1
        await pilot.press("d", "y")
        await until_shown(app, "0 stored sessions")
    assert list_sessions(home) == []
