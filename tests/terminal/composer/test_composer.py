"""The composer: what each key means, what is completed, and what is sent."""

from __future__ import annotations

import struct
from pathlib import Path
from time import thread_time

import pytest
from textual import _xterm_parser as parser
from textual import events

from tertulia.terminal.alt_keys import know_alt_keys
from tertulia.terminal.composer.earlier import EarlierScreen
from tertulia.terminal.composer.editor import ComposerEditor
from tertulia.terminal.composer.messages import (
    CommandEntered,
    EditorRequested,
    ModeCycled,
    ShellEntered,
    Submitted,
)
from tests.terminal.composer.composer_app import composer
from tests.terminal.screen import assert_golden, screen_text

COMMANDS = [("help", "what there is"), ("mcp", "servers"), ("model", "another model")]


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + bytes(210_000)


async def test_enter_sends_and_steers_while_the_conversation_works() -> None:
    async with composer() as pane:
        await pane.type("hello")
        await pane.press("enter")
        sent = pane.last(Submitted)
        assert (sent.text, sent.how, sent.attachments, sent.target) == ("hello", "message", (), None)
        assert pane.entry.text == ""
        pane.composer.show(running=True, queued=[])
        await pane.type("stop that")
        await pane.press("enter")
        assert pane.last(Submitted).how == "steer"


async def test_an_empty_composer_sends_nothing() -> None:
    async with composer() as pane:
        await pane.press("enter", "space", "enter")
        assert pane.app.posted == []


async def test_alt_enter_queues_and_queued_messages_stand_above_the_composer() -> None:
    async with composer() as pane:
        await pane.type("later")
        await pane.press("alt+enter")
        assert pane.last(Submitted).how == "queue"
        pane.composer.show(running=True, queued=["one", "two", "three", "four", "five"])
        await pane.pilot.pause()
        assert "queued  one" in pane.text
        assert "2 more are queued" in pane.text


@pytest.mark.parametrize("key", ["ctrl+backspace", "alt+up"])
async def test_the_newest_queued_message_is_taken_back(key: str) -> None:
    async with composer() as pane:
        await pane.press(key)
        assert pane.kinds() == ["TakeBackRequested"]
        pane.composer.put("what was queued")
        assert pane.entry.text == "what was queued"


def test_alt_enter_is_told_from_enter_where_a_terminal_sends_escape_first() -> None:
    know_alt_keys()
    keys = [event.key for event in parser.XTermParser().feed("\x1b\r") if hasattr(event, "key")]
    assert keys == ["alt+enter"]


@pytest.mark.parametrize("key", ["shift+enter", "ctrl+j"])
async def test_a_message_may_have_several_lines(key: str) -> None:
    async with composer() as pane:
        await pane.type("one")
        await pane.press(key)
        await pane.type("two")
        await pane.press("enter")
        assert pane.last(Submitted).text == "one\ntwo"


async def test_the_arrow_keys_walk_the_history_at_the_first_and_the_last_line() -> None:
    async with composer() as pane:
        for text in ("first", "second"):
            await pane.type(text)
            await pane.press("enter")
        await pane.type("draft")
        await pane.press("up")
        assert pane.entry.text == "second"
        await pane.press("up", "up")
        assert pane.entry.text == "first"
        await pane.press("down", "down")
        assert pane.entry.text == "draft"
        await pane.press("shift+enter", "up")
        assert pane.entry.text == "draft\n", "within a text the arrow keys move the cursor"


async def test_ctrl_s_searches_the_history() -> None:
    async with composer() as pane:
        for text in ("fix the basket", "write tests", "fix the tests"):
            await pane.type(text)
            await pane.press("enter")
        await pane.press("ctrl+s")
        await pane.type("fix")
        assert "› fix the tests" in pane.text
        await pane.press("down", "enter")
        assert pane.entry.text == "fix the basket"


async def test_a_slash_lists_the_commands_and_a_key_puts_one_in() -> None:
    async with composer() as pane:
        pane.composer.sources.commands = COMMANDS
        await pane.type("/m")
        assert "› /mcp" in pane.text
        assert "another model" in pane.text
        await pane.press("down", "tab")
        await pane.type("gpt")
        await pane.press("enter")
        command = pane.last(CommandEntered)
        assert (command.name, command.rest) == ("model", "gpt")


async def test_enter_on_a_whole_command_runs_it() -> None:
    async with composer() as pane:
        pane.composer.sources.commands = COMMANDS
        await pane.type("/help")
        await pane.press("enter")
        assert pane.last(CommandEntered).name == "help"


async def test_a_path_at_the_beginning_is_no_command() -> None:
    async with composer() as pane:
        await pane.type("/etc/hosts is wrong")
        await pane.press("enter")
        assert pane.last(Submitted).text == "/etc/hosts is wrong"


async def test_an_exclamation_mark_runs_a_command_of_the_shell() -> None:
    async with composer() as pane:
        await pane.type("!git status")
        await pane.press("enter")
        assert pane.last(ShellEntered).command == "git status"


async def test_an_at_sign_completes_files_and_asks_for_them_once() -> None:
    async with composer() as pane:
        await pane.type("read @ap")
        assert pane.kinds() == ["FilesWanted"]
        pane.composer.set_files(["README", "app.py", "src/api.py", "src/chapter.py"])
        await pane.pilot.pause()
        assert "› @app.py" in pane.text
        await pane.press("down", "tab", "enter")
        assert pane.last(Submitted).text == "read @src/api.py"
        assert pane.kinds() == ["FilesWanted", "Submitted"]


async def test_a_message_that_begins_with_a_conversation_goes_to_it() -> None:
    async with composer() as pane:
        pane.composer.sources.conversations = ["tester", "tester two"]
        await pane.type("@te")
        await pane.press("tab")
        await pane.type("run them")
        await pane.press("enter")
        sent = pane.last(Submitted)
        assert (sent.target, sent.text) == ("tester", "run them")


async def test_escape_closes_the_list_then_stops_what_runs() -> None:
    async with composer() as pane:
        pane.composer.sources.commands = COMMANDS
        await pane.type("/m")
        await pane.press("escape")
        assert pane.app.posted == []
        assert "/mcp" not in pane.text
        await pane.press("escape")
        assert pane.kinds() == ["StopRequested"]


async def test_two_escapes_on_an_empty_composer_ask_for_an_earlier_message() -> None:
    async with composer() as pane:
        await pane.press("escape", "escape")
        assert pane.kinds() == ["StopRequested", "EarlierRequested"]
        pane.app.clock.seconds += 5
        await pane.press("escape")
        pane.app.clock.seconds += 5
        await pane.press("escape")
        assert pane.kinds()[2:] == ["StopRequested", "StopRequested"]


async def test_an_earlier_message_is_picked_edited_and_sent_in_a_fork() -> None:
    async with composer() as pane:
        chosen: list[object] = []
        pane.app.push_screen(EarlierScreen([("k1", "one\x1b[2J"), ("k2", "two"), ("k3", "three")]), chosen.append)
        await pane.pilot.pause()
        assert "› three" in pane.text
        assert "\x1b" not in pane.text
        await pane.press("up", "enter")
        assert chosen == [("k2", "two")]
        pane.composer.put("two", fork_at="k2")
        await pane.type("!")
        assert "in a fork" in pane.text
        await pane.press("enter")
        sent = pane.last(Submitted)
        assert (sent.text, sent.how, sent.fork_at, sent.restores) == ("two!", "fork", "k2", False)


async def test_files_that_are_offered_come_back_on_demand_only() -> None:
    """26-1: Alt+U, and nothing that is typed."""
    async with composer() as pane:
        pane.composer.put("two", fork_at="k2")
        await pane.press("alt+u")
        assert "Alt+U" not in pane.text
        assert pane.composer.fork is not None
        pane.composer.fork.files = ["a\x1b[2J", "b", "c", "d"]
        pane.composer.redraw()
        await pane.type("uyU")
        assert "Alt+U brings them back too; were changed since: a" in pane.text
        assert "and 1 more" in pane.text
        assert "\x1b" not in pane.text
        await pane.press("alt+u", "alt+u", "alt+u", "enter")
        assert pane.last(Submitted).restores
        await pane.press("alt+u")
        assert "Alt+U" not in pane.text


async def test_the_mode_key_narrows_at_once_and_asks_before_it_widens() -> None:
    async with composer() as pane:
        await pane.press("shift+tab")
        assert "auto mode?" in pane.text
        assert pane.app.posted == []
        await pane.press("y")
        assert pane.app.posted == [], "a yes counted in the moment in which the question appeared"
        assert pane.entry.text == "y"
        pane.entry.clear()
        await pane.press("shift+tab")
        pane.app.clock.seconds += 1
        await pane.press("y")
        assert pane.last(ModeCycled).mode == "auto"
        assert "auto > " in pane.text
        await pane.press("shift+tab")
        assert pane.last(ModeCycled).mode == "plan"
        assert "plan > " in pane.text


async def test_any_other_key_keeps_the_mode() -> None:
    async with composer() as pane:
        for key in ("n", "enter", "escape"):
            await pane.press("shift+tab")
            pane.app.clock.seconds += 1
            await pane.press(key)
        assert not [message for message in pane.app.posted if isinstance(message, ModeCycled)]
        assert pane.composer.modes.mode == "ask"


async def test_plan_mode_is_reached_without_a_yes() -> None:
    async with composer() as pane:
        await pane.press("shift+tab", "shift+tab")
        assert [message.mode for message in pane.app.posted if isinstance(message, ModeCycled)] == ["plan"]


async def test_the_text_goes_to_the_editor_of_the_person_and_comes_back() -> None:
    async with composer() as pane:
        await pane.paste("a\n" * 50)
        await pane.press("ctrl+x", "ctrl+e")
        assert pane.last(EditorRequested).text == "a\n" * 50
        await pane.press("ctrl+x", "b")
        assert pane.entry.text.endswith("b"), "the prefix swallowed a letter"
        pane.composer.put("edited")
        assert pane.entry.text == "edited"


async def test_a_paste_of_a_megabyte_is_folded_and_sent_whole() -> None:
    async with composer() as pane:
        text = "".join(f"{number:079}\n" for number in range(12_400))
        began = thread_time()
        await pane.paste(text)
        assert thread_time() - began < 1.0
        assert "[pasted 12,401 lines]" in pane.text
        await pane.type("why?")
        await pane.press("enter")
        assert pane.last(Submitted).text == f"{text}why?"


async def test_one_key_deletes_the_sign_of_a_paste() -> None:
    async with composer() as pane:
        await pane.paste("a\n" * 50)
        await pane.paste("a\n" * 50)
        assert pane.entry.text == "[pasted 51 lines][pasted 51 lines (2)]"
        await pane.press("backspace")
        assert pane.entry.text == "[pasted 51 lines]"


async def test_a_paste_with_escape_sequences_is_never_shown_but_sent_whole() -> None:
    """HARDENING A22: what a terminal would obey does not reach it."""
    async with composer() as pane:
        hostile = "\x1b]0;owned\x07\u202eabc\u200b"
        await pane.paste(hostile)
        assert not set(pane.text) & set(hostile) - set("abc]0;owned")
        assert "some not visible" in pane.text
        await pane.press("enter", "up")
        assert "some not visible" in pane.text
        await pane.press("enter")
        assert pane.last(Submitted).text == hostile


async def test_a_picture_is_added_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "a shot.png").write_bytes(png(1280, 720))
    (tmp_path / "no.png").write_text("no picture")
    async with composer(tmp_path) as pane:
        await pane.paste(f"'{tmp_path}/a shot.png'")
        assert "[picture 1280x720, 210 KB]" in pane.text
        await pane.paste("no.png")
        await pane.press("enter")
        sent = pane.last(Submitted)
        assert sent.text == "no.png"
        assert [picture.path for picture in sent.attachments] == [f"{tmp_path}/a shot.png"]


async def test_ctrl_v_asks_for_what_the_clipboard_has() -> None:
    async with composer() as pane:
        await pane.press("ctrl+v")
        assert pane.kinds() == ["ClipboardRequested"]


async def test_wide_characters_and_the_cursor_after_a_resize() -> None:
    """The terminal's own cursor, where input methods open, stands where the text is."""
    async with composer() as pane:
        await pane.paste("日本語テキスト")
        assert pane.app.cursor_position == (16, 15)
        await pane.pilot.resize_terminal(40, 10)
        await pane.pilot.pause()
        assert pane.app.cursor_position == (16, 9)
        await pane.pilot.resize_terminal(12, 10)
        await pane.pilot.pause()
        assert "日本語テキ" in pane.text.replace("\n", "").replace(" ", "")


async def test_nothing_blinks() -> None:
    async with composer() as pane:
        assert pane.entry.cursor_blink is False


async def test_an_empty_composer_survives_a_window_of_one_cell() -> None:
    async with composer(size=(1, 1)) as pane:
        await pane.pilot.resize_terminal(80, 16)
        await pane.pilot.pause()
        assert "message   / commands" in screen_text(pane.app)


@pytest.mark.parametrize("size", [(80, 24), (100, 30)], ids=["80x24", "100x30"])
async def test_golden_composer(size: tuple[int, int]) -> None:
    async with composer(size=size) as pane:
        pane.composer.sources.commands = COMMANDS
        pane.composer.show(running=True, queued=["have it reviewed", "then report"])
        await pane.type("/m")
        assert_golden(pane.app, f"composer-{size[0]}x{size[1]}")


async def test_a_list_that_is_older_than_the_text_is_not_chosen_from() -> None:
    """Keys that come quickly, as on a busy machine: Enter is for what stands there."""
    async with composer() as pane:
        pane.composer.sources.commands = [("diff", "what differs"), ("doctor", "what is wrong")]
        await pane.type("/d")
        assert "› /diff" in pane.text
        editor = pane.app.query_one(ComposerEditor)
        for character in "octor":
            editor.insert(character)
        assert pane.composer._completing.list.candidates[0].text == "/diff ", "nothing was told yet"
        assert not pane.composer._wants_key(events.Key("enter", "\r"))
        await pane.press("enter")
        sent = pane.last(CommandEntered)
        assert (sent.name, sent.rest) == ("doctor", "")
