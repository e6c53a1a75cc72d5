"""`[tui] vim = true`: normal mode of the composer does what vim does, and types nothing."""

from __future__ import annotations

from textual import events

from tertulia.session.settings.terminal_table import terminal_from_wire
from tertulia.terminal.composer.messages import EarlierRequested, StopRequested, Submitted
from tests.terminal.composer.composer_app import composer
from tests.terminal.screen import screen_text

ROWS = [
    # keys in normal mode, with the cursor at the end of "one two.three\nfour five", and what becomes of it
    ("x", "one two.three\nfour fiv"),
    ("0 x", "one two.three\nour five"),
    ("b D", "one two.three\nfour "),
    ("b b d w", "one two.three\nfive"),
    ("0 e x", "one two.three\nfou five"),
    ("0 d e", "one two.three\n five"),
    ("0 d $", "one two.three\n"),
    ("d b", "one two.three\nfour e"),
    ("k 0 w d w", "one .three\nfour five"),
    ("k 0 w w x", "one twothree\nfour five"),
    ("k 0 l l h x", "oe two.three\nfour five"),
    ("d d", "one two.three"),
    ("k d d", "four five"),
    ("k d d p", "four five\none two.three"),
    ("y y p", "one two.three\nfour five\nfour five"),
    ("0 x p", "one two.three\nofur five"),
    ("0 y w $ p", "one two.three\nfour fivefour "),
    ("0 x u", "one two.three\nfour five"),
    ("k 0 j x", "one two.three\nour five"),
    ("0 c w A escape", "one two.three\nA five"),
    ("c c A escape", "one two.three\nA"),
    ("0 C A escape", "one two.three\nA"),
    ("0 i A escape", "one two.three\nAfour five"),
    ("0 a A escape", "one two.three\nfAour five"),
    ("0 A B escape", "one two.three\nfour fiveB"),
    ("I B escape", "one two.three\nBfour five"),
    ("o B escape", "one two.three\nfour five\nB"),
    ("O B escape", "one two.three\nB\nfour five"),
    ("k 0 G x", "one two.three\nfour fiv"),
    ("d q z Z @", "one two.three\nfour five"),
    ("x x x x x x x x x x x x", "one two.three\n"),
]


async def test_keys_of_normal_mode_edit_as_in_vim() -> None:
    """UI.md 4.7."""
    async with composer() as pane:
        pane.composer.use_vim()
        became: dict[str, str] = {}
        for keys, _ in ROWS:
            pane.composer.put("one two.three\nfour five")
            for key in ("escape", *keys.split()):
                pane.app.post_message(events.Key(key, None if key == "escape" else key))
            pane.app.post_message(events.Key("i", "i"))
            await pane.pilot.pause()
            await pane.pilot.pause()
            became[keys] = pane.entry.text
    assert became == dict(ROWS)


async def test_the_prompt_says_normal_and_enter_sends_from_there() -> None:
    async with composer() as pane:
        pane.composer.use_vim()
        await pane.type("hello")
        assert "normal >" not in screen_text(pane.app)
        await pane.press("escape")
        assert "normal >" in screen_text(pane.app)
        await pane.type("qzQ")
        assert pane.entry.text == "hello", "a key that vim has and this has not types nothing"
        await pane.press("enter")
        assert pane.last(Submitted).text == "hello"
        assert "normal >" not in screen_text(pane.app), "the next message is typed at once"
        await pane.type("iris")
        assert pane.entry.text == "iris"


async def test_escape_in_normal_mode_is_escape_as_ever() -> None:
    async with composer() as pane:
        pane.composer.use_vim()
        await pane.press("escape")
        assert pane.app.posted == [], "the first one begins normal mode"
        await pane.press("escape")
        assert [type(message) for message in pane.app.posted] == [StopRequested]
        await pane.press("escape")
        assert [type(message) for message in pane.app.posted] == [StopRequested, EarlierRequested]


async def test_rows_beyond_the_ends_are_those_of_the_history() -> None:
    async with composer() as pane:
        pane.composer.use_vim()
        await pane.type("first")
        await pane.press("enter", "escape", "k")
        assert pane.entry.text == "first"
        await pane.press("j")
        assert pane.entry.text == ""


async def test_without_the_setting_there_is_no_normal_mode() -> None:
    assert not terminal_from_wire({}).vim
    assert terminal_from_wire({"vim": True}).vim
    async with composer() as pane:
        await pane.type("hello")
        await pane.press("escape", "x")
        assert pane.entry.text == "hellox"
