"""Every key that holds everywhere and every command does what it says."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from tertulia.errors import BusyError
from tertulia.terminal.commands.command_list import COMMANDS
from tertulia.terminal.commands.runner import RUNNERS
from tests.terminal.played_port import STORY, PlayedPort, played, played_app
from tests.terminal.screen import enter, screen_text, until, until_shown


def story(answers: dict[str, Any] | None = None) -> tuple[PlayedPort, Any]:
    port = PlayedPort(played(*STORY), answers)
    return port, played_app(port)


def test_every_command_of_the_list_is_run_by_something() -> None:
    assert {command.name for command in COMMANDS} == set(RUNNERS)


async def test_ctrl_up_and_down_walk_to_the_parent_and_to_those_below() -> None:
    _, app = story()
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, "1 ask")
        await pilot.press("ctrl+down")
        await until(lambda: app.scene.seen == "reviewer")
        await pilot.press("ctrl+down")
        await until(lambda: app.scene.seen == "tester")
        await pilot.press("ctrl+up")
        await until(lambda: app.scene.seen == "root")


async def test_f6_goes_to_the_conversation_that_asks() -> None:
    _, app = story()
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, "1 ask")
        await pilot.press("f6")
        await until(lambda: app.scene.seen == "tester")
        assert app.title == "Tertulia: 1 ask"


async def test_ctrl_g_weaves_all_conversations_and_unweaves_them() -> None:
    _, app = story()
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, "1 ask")
        await pilot.press("ctrl+g")
        await until_shown(app, "── reviewer ──")
        await pilot.press("ctrl+g")
        await until(lambda: "── reviewer ──" not in screen_text(app))


async def test_bracket_a_goes_to_the_conversation_that_asks_where_no_text_is_typed() -> None:
    """UI.md 4.3: as F6 does; in the transcript and in the tree, and never in the composer."""
    _, app = story()
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, "1 ask")
        await pilot.press("right_square_bracket", "a")
        assert app.scene.seen == "root", "this was typed"
        for pane in (app.scene.panes.transcript, app.scene.panes.tree):
            app.scene.see("root")
            pane.focus()
            await pilot.pause()
            await pilot.press("right_square_bracket", "j", "a")
            assert app.scene.seen == "root"
            await pilot.press("right_square_bracket", "a")
            await until(lambda: app.scene.seen == "tester")
            assert app.scene.panes.approvals.has_focus


async def test_w_weaves_a_conversation_with_those_below_it_and_no_others() -> None:
    """UI.md 4.3: for a subtree, from the tree and from the transcript."""
    _, app = story()
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, "1 ask")
        await pilot.press("ctrl+t", "j", "w")
        await until_shown(app, "── reviewer ──")
        await until_shown(app, "reviewer and those below it in one stream")
        assert "── root ──" not in screen_text(app)
        await pilot.press("w")
        await until(lambda: "── reviewer ──" not in screen_text(app))
        app.scene.see("root")
        app.scene.panes.transcript.focus()
        await pilot.press("w")
        await until_shown(app, "── tester ──")
        await pilot.press("w")
        await until(lambda: "── tester ──" not in screen_text(app))


async def test_the_palette_finds_commands_and_conversations() -> None:
    _, app = story()
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, "1 ask")
        await pilot.press("ctrl+k", *"review")
        await until_shown(app, "Find  review_")
        await pilot.press("enter")
        await until(lambda: app.scene.seen == "reviewer")
        await pilot.press("ctrl+k", *"/status", "enter")
        await until_shown(app, "abstract sockets can be reached")
        await pilot.press("escape")
        await until(lambda: "abstract sockets" not in screen_text(app))


async def test_f1_shows_all_keys_and_escape_leaves_the_page() -> None:
    _, app = story()
    async with app.run_test(size=(160, 50)) as pilot:
        await until_shown(app, "1 ask")
        await pilot.press("f1")
        await until_shown(app, "Keys that hold everywhere")
        assert "Ctrl+G" in screen_text(app)
        await pilot.press("end", "q")
        await until(lambda: "Keys that hold everywhere" not in screen_text(app))
        assert app.scene.seen == "root"


async def test_escape_stops_the_chain_and_says_which() -> None:
    port, app = story()
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, "1 ask")
        await pilot.press("escape")
        await until_shown(app, "stopping root")
        assert port.called("conversation/interrupt") == [{"conversation_id": "root", "scope": "chain"}]


async def test_ctrl_c_leaves_only_when_it_is_pressed_twice() -> None:
    _, app = story()
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, "1 ask")
        await pilot.press("ctrl+c")
        await until_shown(app, "Ctrl+C once more")
        assert app.is_running
        await pilot.press("ctrl+c")
        await until(lambda: not app.is_running)


COMMAND_ROWS: list[tuple[str, str, str]] = [
    ("/new helper", "conversation/open", ""),
    ("/go rev", "", ""),
    ("/fork", "conversation/fork", ""),
    ("/compact", "conversation/compact", "nothing was replaced: it is short"),
    ("/model", "", "the model is openai/gpt-5.2"),
    ("/model local/small", "conversation/set_context", "local/small answers from the next"),
    ("/mcp", "mcp/status", "tools 14"),
    ("/mcp refresh", "mcp/refresh", "tools 15"),
    ("/mcp now", "", "takes nothing or refresh"),
    ("/tools", "conversation/tools", "Run a command."),
    ("/approvals", "approval/grants", "No grant holds"),
    ("/why", "rights/explain", "root may"),
    ("/sandbox", "session/info", "confined by bubblewrap"),
    ("/sandbox read-only", "conversation/set_context", ""),
    ("/sandbox none", "", "takes read-only"),
    ("/status", "session/info", "abstract sockets"),
    ("/canvas", "canvas/list", "Coverage"),
    ("/theme", "", "tertulia-light"),
    ("/theme pink", "", "there is no theme 'pink'"),
    ("/keys", "", "app.palette"),
    ("/doctor", "", "looking at settings"),
    ("/help", "", "Keys that hold everywhere"),
    ("/modle", "", "did you mean model"),
]


async def test_a_command_calls_its_operation_and_shows_what_comes_of_it() -> None:
    port, app = story()
    async with app.run_test(size=(100, 40)) as pilot:
        await until_shown(app, "1 ask")
        await until(lambda: port.called("mcp/status"))
        for typed, operation, shown in COMMAND_ROWS:
            app.scene.see("root")
            port.calls.clear()
            await enter(app, pilot, typed)
            if operation:
                await until(lambda name=operation: port.called(name), f"{typed} did not call {operation}")
            if shown:
                await until_shown(app, shown)
            if typed == "/approvals":
                await pilot.press("escape")
            if typed == "/go rev":
                await until(lambda: app.scene.seen == "reviewer")


async def test_what_is_refused_is_said_in_a_sentence_and_goes_with_the_next_act() -> None:
    _, app = story({"conversation/fork": BusyError("the conversation works; wait until it is ready")})
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, "1 ask")
        await enter(app, pilot, "/fork")
        await until_shown(app, "the conversation works; wait until it is ready")
        await enter(app, pilot, "/theme high-contrast")
        await until(lambda: "wait until it is ready" not in screen_text(app))
        assert app.theme == "high-contrast"


async def test_a_transcript_is_written_to_a_new_file_only(tmp_path: Path) -> None:
    _, app = story()
    path = tmp_path / "out.md"
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, "1 ask")
        await enter(app, pilot, f"/export {path}")
        await until_shown(app, "written to")
        assert path.read_text().startswith("> The basket's total is wrong")
        await enter(app, pilot, f"/export {path}")
        await until_shown(app, "could not be written")


async def test_copying_goes_to_the_clipboard_of_the_terminal() -> None:
    _, app = story()
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, "1 ask")
        await enter(app, pilot, "/copy")
        await until_shown(app, "there is no answer to copy yet")
        app.scene.see("reviewer")
        await enter(app, pilot, "/copy")
        await until_shown(app, "copied the last answer")
        assert app.clipboard == "The change is **right**."
        assert base64.b64encode(app.clipboard.encode())


async def test_rights_in_the_place_of_the_transcript_go_with_escape_and_with_a_message() -> None:
    port, app = story()
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(app, "1 ask")
        await pilot.press("ctrl+r")
        await until_shown(app, "root may")
        assert "Esc leaves" in screen_text(app)
        await pilot.press("escape")
        await until(lambda: "root may" not in screen_text(app))
        assert port.called("conversation/interrupt") == []
        await enter(app, pilot, "/why rm -rf build")
        await until_shown(app, "rm is not known to be safe")
        await enter(app, pilot, "hello")
        await until(lambda: "root may" not in screen_text(app))
        assert app.scene.panes.transcript.display


async def test_copying_where_nothing_is_says_so_and_keeps_the_clipboard() -> None:
    _, app = story()
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, "1 ask")
        app.copy_to_clipboard("mine")
        app.scene.panes.transcript.focus()
        await pilot.press("Y")
        await until_shown(app, "there is nothing to copy here")
        assert app.clipboard == "mine"


async def test_rights_are_those_of_the_conversation_that_is_seen_whichever_key_went_there() -> None:
    narrowed = [{"field": "sandbox", "value": "workspace-write", "set_by": "chain", "now": "read-only"}]
    port, app = story({"rights/explain": {"conversation_id": "reviewer", "rights": narrowed}})
    async with app.run_test(size=(160, 50)) as pilot:
        await until_shown(app, "1 ask")
        await pilot.press("ctrl+down")
        await until(lambda: {"conversation_id": "reviewer"} in port.called("rights/explain"))
        await until_shown(app, "reviewer may")
        assert "read-only · untrusted" in screen_text(app)


async def test_a_conversation_chosen_on_a_page_is_the_one_that_is_drawn() -> None:
    _, app = story()
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(app, "The basket's total is wrong")
        await pilot.press("ctrl+t", *"review")
        await until_shown(app, "Conversations  review_")
        await pilot.press("enter")
        await until_shown(app, "The change is right.")
        assert "The basket's total is wrong" not in screen_text(app)
