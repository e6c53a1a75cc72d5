"""The transcript at a keyboard: every key, what is painted, and that neither grows with the history."""

from __future__ import annotations

import gc

import pytest
from textual.events import Key, MouseScrollUp
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widget import Widget

from tertulia.terminal.drawing.palette import ASCII, Marks
from tertulia.terminal.transcript import document as document_module
from tertulia.terminal.transcript.document import MAX_ROWS
from tertulia.terminal.transcript.messages import CopyRequested, ForkRequested, OpenFile, SearchClosed
from tertulia.terminal.transcript.weave import Weave
from tertulia.view.board import Board
from tests.terminal.screen import assert_golden, screen_rows, screen_text
from tests.terminal.transcript.boards import PATCH, ROOT, Script, TranscriptApp, long_board, root_cells, shop, view_of

NUMBERED = "\n\n".join(f"row {number}" for number in range(60))


def numbered() -> Board:
    return Script().ask("first question").say(NUMBERED).ask("second question").say("the end").board()


def cursor_row(app: TranscriptApp) -> str:
    return next((line for line in screen_text(app).split("\n") if line.startswith("›")), "").strip("› ")


async def pressed(app: TranscriptApp, pilot: Pilot[None], *keys: str) -> str:
    await pilot.press(*keys)
    await pilot.pause()
    return cursor_row(app)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_screen_of_a_session(size: tuple[int, int]) -> None:
    app = TranscriptApp(root_cells(shop().board()))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        assert_golden(app, f"transcript/end_{size[0]}x{size[1]}")
        await pilot.press("g")
        assert_golden(app, f"transcript/beginning_{size[0]}x{size[1]}")


async def test_the_weave_names_who_speaks() -> None:
    app = TranscriptApp(Weave(shop().board()))
    async with app.run_test(size=(80, 50)) as pilot:
        await pilot.press("g")
        assert_golden(app, "transcript/weave_80x50")


async def test_without_colours_the_text_is_the_same_and_no_style_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = TranscriptApp(root_cells(shop().board()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "✓ done, 10,500 tokens" in screen_text(app)
        styles = [style for row in screen_rows(app) for _, style in row]
        colours = [colour for style in styles for colour in (style.color, style.bgcolor) if colour is not None]
        assert all(colour.is_default for colour in colours)


async def test_a_theme_with_colours_of_its_own_has_its_ground_in_every_row() -> None:
    app = TranscriptApp(root_cells(shop().board()))
    async with app.run_test(size=(80, 24)) as pilot:
        app.ansi_color = False
        app.theme = "textual-light"
        await pilot.pause()
        grounds = {style.bgcolor for row in screen_rows(app) for _, style in row}
        assert len(grounds) == 1
        assert not any(ground is None or ground.is_default for ground in grounds)


async def test_marks_of_ascii_are_used_from_then_on() -> None:
    app = TranscriptApp(root_cells(numbered()), ASCII)
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.pause()
        assert screen_text(app).isascii()
        app.transcript.use_marks(Marks())
        await pilot.pause()
        assert "▌ second question" in screen_text(app)


async def test_keys_that_move() -> None:
    app = TranscriptApp(root_cells(numbered()))
    async with app.run_test(size=(40, 20)) as pilot:
        assert await pressed(app, pilot, "k") == ""
        assert cursor_row(app) == ""  # a blank row between two cells
        assert await pressed(app, pilot, "k") == "▌ second question"
        assert await pressed(app, pilot, "j", "j") == "the end"
        assert await pressed(app, pilot, "up", "up") == "▌ second question"
        assert await pressed(app, pilot, "down", "down") == "the end"
        assert await pressed(app, pilot, "g") == "▌ first question"
        assert await pressed(app, pilot, "G") == "the end"
        assert await pressed(app, pilot, "home") == "▌ first question"
        assert await pressed(app, pilot, "end") == "the end"
        assert await pressed(app, pilot, "g", "space", "j") == "row 9"
        assert await pressed(app, pilot, "pageup", "k") == "▌ first question"
        assert await pressed(app, pilot, "g", "pagedown", "j") == "row 9"
        assert await pressed(app, pilot, "g", "ctrl+d") == "row 4"
        assert await pressed(app, pilot, "ctrl+d", "ctrl+u") == "row 4"


async def test_keys_that_go_to_messages_of_a_person() -> None:
    app = TranscriptApp(root_cells(numbered()))
    async with app.run_test(size=(40, 20)) as pilot:
        assert await pressed(app, pilot, "left_square_bracket") == "▌ second question"
        assert await pressed(app, pilot, "left_square_bracket") == "▌ first question"
        assert await pressed(app, pilot, "left_square_bracket") == "▌ first question"
        assert await pressed(app, pilot, "right_square_bracket") == "▌ second question"


async def test_keys_that_unfold() -> None:
    board = Script().run("c1", "seq 9", "\n".join("123456789")).run("c2", "seq 8", "\n".join("12345678")).board()
    app = TranscriptApp(root_cells(board))
    async with app.run_test(size=(40, 30)) as pilot:
        await pilot.pause()
        assert "6 more lines" in screen_text(app)
        await pilot.press("g", "o")
        assert "│ 9" in screen_text(app)
        assert "5 more lines" in screen_text(app)
        await pilot.press("o")
        assert "6 more lines" in screen_text(app)
        await pilot.press("O")
        assert "more lines" not in screen_text(app)
        await pilot.press("O")
        assert "6 more lines" in screen_text(app)


async def test_a_code_block_below_the_cursor_is_copied_and_none_is_said() -> None:
    app = TranscriptApp(root_cells(Script().say("Look:\n\n```python\nx = 1\n```\n\nafter").board()))
    async with app.run_test(size=(40, 30)) as pilot:
        await pilot.press("g", "Y")
        await pilot.pause()
    without = TranscriptApp(root_cells(Script().say("No code.").board()))
    async with without.run_test(size=(40, 30)) as pilot:
        await pilot.press("Y")
        await pilot.pause()
    messages = [*app.messages, *without.messages]
    assert [message.text for message in messages if isinstance(message, CopyRequested)] == ["x = 1", ""]


async def test_keys_that_copy() -> None:
    script = Script().say(
        "A **bold** text that is longer than a row of the screen.\n\n```python\nx = 1\ny = 2\n```\n\nafter"
    )
    app = TranscriptApp(root_cells(script.board()))
    async with app.run_test(size=(40, 30)) as pilot:
        await pilot.press("g", "y")
        await pilot.press("G", "Y")
        await pilot.press("g", "v", "j", "j", "j", "y")
        await pilot.pause()
    copied = [message.text for message in app.messages if isinstance(message, CopyRequested)]
    assert copied == [
        "A **bold** text that is longer than a row of the screen.\n\n```python\nx = 1\ny = 2\n```\n\nafter",
        "x = 1\ny = 2",
        "A bold text that is longer than a row of the screen.\n\nx = 1",
    ]


async def test_a_mouse_selects_and_copies_text_without_its_drawing() -> None:
    app = TranscriptApp(root_cells(Script().run("c1", "ls", "first\nsecond").board()))
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.mouse_down("Transcript", offset=(2, 1))
        await pilot.hover("Transcript", offset=(9, 2))
        await pilot.pause()
        reversed_text = "".join(text for row in screen_rows(app) for text, style in row if style.reverse)
        await pilot.mouse_up("Transcript", offset=(9, 2))
        await pilot.pause()
    assert reversed_text == "firstsec"
    assert [message.text for message in app.messages if isinstance(message, CopyRequested)] == ["first\nsec"]


async def test_a_click_copies_nothing() -> None:
    app = TranscriptApp(root_cells(numbered()))
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.click("Transcript", offset=(5, 2))
        await pilot.pause()
    assert app.messages == []


async def test_escape_ends_a_selection_and_then_goes_on_to_the_application() -> None:
    app = TranscriptApp(root_cells(numbered()))
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.press("v")
        assert app.transcript.reader.selected is not None
        await pilot.press("escape")
        assert app.transcript.reader.selected is None


async def test_a_search_finds_what_is_folded_and_goes_round() -> None:
    board = Script().say("alpha needle").run("c1", "cat", "1\n2\n3\n4\n5\nNeedle\n7\n8").say("omega").board()
    app = TranscriptApp(root_cells(board))
    async with app.run_test(size=(50, 20)) as pilot:
        await pilot.press("slash", *"needx", "backspace", *"le")
        assert "/needle" in screen_text(app)
        assert await pressed(app, pilot, "enter") == "│ Needle"
        assert await pressed(app, pilot, "n") == "alpha needle"
        assert await pressed(app, pilot, "n") == "│ Needle"
        assert await pressed(app, pilot, "N") == "alpha needle"
        marked = [text for row in screen_rows(app) for text, style in row if style.reverse]
        assert marked == ["needle", "Needle"]
        await pilot.press("escape", "slash", *"zzz", "enter")
        assert "is not in this transcript" in screen_text(app)
        await pilot.press("escape")
        await pilot.pause()
    assert [type(message) for message in app.messages] == [SearchClosed, SearchClosed]


async def test_a_query_that_is_typed_quickly_does_nothing_else() -> None:
    app = TranscriptApp(root_cells(numbered()))
    async with app.run_test(size=(50, 20)) as pilot:
        for key in ("slash", *"fey", "enter"):
            character = {"slash": "/", "enter": "\r"}.get(key, key)
            app.post_message(Key(key, character))
        await pilot.pause()
        assert app.transcript.reader.search is not None
        assert app.transcript.reader.search.query == "fey"
    assert app.messages == []


async def test_the_cursor_at_the_end_stays_there_while_text_comes() -> None:
    board = numbered()
    app = TranscriptApp(root_cells(board))
    async with app.run_test(size=(40, 12)) as pilot:
        await pilot.press("k", "k", "G")
        grow(board, "one\n\ntwo\n\nthree", 0)
        app.transcript.changed()
        await pilot.pause()
        assert cursor_row(app) == "three"


async def test_e_opens_the_file_at_its_line() -> None:
    script = Script().run("c1", "pytest", "x\nsrc/app.py:41: error", 1).call("c2", "apply_patch", PATCH)
    script.add("patch_apply_begin", call_id="c2", changes=[{"path": "app.py", "kind": "update"}])
    app = TranscriptApp(root_cells(script.board()))
    async with app.run_test(size=(80, 40)) as pilot:
        await pilot.press("g", "j", "j", "e")
        await pilot.press("G", "e")
        await pilot.pause()
    opened = [(message.path, message.line) for message in app.messages if isinstance(message, OpenFile)]
    assert opened == [("src/app.py", 41), ("tests/test_total.py", 1)]


async def test_f_asks_for_a_fork_at_this_cell() -> None:
    board = numbered()
    app = TranscriptApp(root_cells(board))
    async with app.run_test(size=(40, 20)) as pilot:
        await pilot.press("g", "f")
        await pilot.pause()
    (message,) = app.messages
    assert isinstance(message, ForkRequested)
    assert (message.cell_key, message.conversation_id) == (view_of(board).cells[0].key, ROOT)


async def test_the_wheel_scrolls_and_a_sign_says_that_there_is_more() -> None:
    app = TranscriptApp(root_cells(numbered()))
    async with app.run_test(size=(40, 10)) as pilot:
        assert "more" not in screen_text(app)
        await pilot._post_mouse_events([MouseScrollUp], "Transcript")
        await pilot.pause()
        assert "↓ more" in screen_text(app)


# ── what is painted ──────────────────────────────────────────────────────────────────────────────────────────


def grow(board: Board, text: str, offset: int) -> None:
    event = Script().add("agent_message_delta", text=text, item_id="g", offset=offset).played()[-1]
    board.take(event)


async def test_text_that_comes_paints_its_own_row_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    board = long_board(60)
    app = TranscriptApp(root_cells(board))
    async with app.run_test(size=(80, 24)) as pilot:
        grow(board, "word", 0)
        app.transcript.changed()
        await pilot.pause()
        painted: list[int] = []
        refresh = Widget.refresh

        def watched(widget: Widget, *regions: object, **options: object) -> object:
            painted.append(sum(region.height for region in regions))
            return refresh(widget, *regions, **options)

        monkeypatch.setattr(Widget, "refresh", watched)
        grow(board, " and more", 4)
        app.transcript.changed()
        assert painted == [1]
        app.transcript.changed()
        assert painted == [1], "nothing has changed, so nothing is painted"


async def test_a_token_draws_as_much_after_ten_thousand_cells_as_after_none(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    for board in (Script().board(), long_board(9_999)):
        app = TranscriptApp(root_cells(board))
        async with app.run_test(size=(80, 24)) as pilot:
            text = ""
            grow(board, "begin\n\n", 0)
            app.transcript.changed()
            count = 0
            rows = document_module.Document._draw

            def counted(self: object, *arguments: object, _rows: object = rows, **options: object) -> object:
                nonlocal count
                count += 1
                return _rows(self, *arguments, **options)

            monkeypatch.setattr(document_module.Document, "_draw", counted)
            text = "begin\n\n"
            for number in range(30):
                grow(board, f"token {number} ", len(text))
                text += f"token {number} "
                app.transcript.changed()
            await pilot.pause()
            monkeypatch.setattr(document_module.Document, "_draw", rows)
            drawn.append(count)
    assert drawn == [30, 30]


async def test_ten_thousand_cells_are_one_widget_and_few_strips() -> None:
    app = TranscriptApp(root_cells(long_board(9_999)))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert len(app.screen.query("*")) == 1
        reader = app.transcript.reader
        assert len(reader.document._drawn) < 40
        for _ in range(600):
            await app.run_action("read('page_up')", app.transcript)
        assert reader.document._row_count <= MAX_ROWS + 100
        gc.collect()
        assert sum(isinstance(thing, Strip) for thing in gc.get_objects()) < 3 * MAX_ROWS


async def test_a_reader_who_scrolled_up_sees_the_same_while_text_comes() -> None:
    board = numbered()
    app = TranscriptApp(root_cells(board))
    async with app.run_test(size=(40, 12)) as pilot:
        await pilot.press("pageup")
        before = screen_text(app)
        grow(board, "\n\n".join("new text" for _ in range(20)), 0)
        app.transcript.changed()
        await pilot.pause()
        assert screen_text(app) == before
        await pilot.press("G")
        assert "new text" in screen_text(app)


async def test_the_view_stays_where_it_is_when_old_cells_are_dropped() -> None:
    board = long_board(300)
    app = TranscriptApp(root_cells(board))
    async with app.run_test(size=(60, 12)) as pilot:
        await pilot.press("pageup", "pageup")
        before = screen_text(app)
        del view_of(board).cells[:30]
        app.transcript.changed()
        await pilot.pause()
        assert screen_text(app) == before


async def test_another_size_wraps_anew_and_keeps_the_end_in_view() -> None:
    app = TranscriptApp(root_cells(shop().board()))
    async with app.run_test(size=(100, 30)) as pilot:
        for size in ((40, 10), (1, 1), (3, 2), (120, 40), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        assert "✓ done, 10,500 tokens" in screen_text(app)


async def test_keys_in_an_empty_transcript_do_nothing() -> None:
    for app in (TranscriptApp(), TranscriptApp(root_cells(Script().board()))):
        async with app.run_test(size=(40, 10)) as pilot:
            await pilot.press(*"jkgGoOvyvyYnef", "space", "pageup", "left_square_bracket", "slash", "a", "enter", "n")
            await pilot.pause()
        assert [type(message) for message in app.messages] in ([], [CopyRequested])


async def test_what_a_stream_shows_is_never_shown_twice() -> None:
    board = Script().board()
    app = TranscriptApp(root_cells(board))
    text = "\n\n".join(f"paragraph {number}" for number in range(8))
    async with app.run_test(size=(60, 40)) as pilot:
        for start in range(0, len(text), 7):
            grow(board, text[start : start + 7], start)
            app.transcript.changed()
            lines = [line for line in screen_text(app).split("\n") if line.strip()]
            assert len(lines) == len(set(lines))
        await pilot.pause()
