"""The rail, the status line and the side panel, through the screen."""

from __future__ import annotations

from tertulia.terminal.panels.rail import Rail
from tertulia.terminal.panels.status import StatusLine
from tests.terminal.played_port import BEGIN, STORY, PlayedPort, many, opened, played, played_app, wrote
from tests.terminal.screen import screen_text, until, until_shown


async def test_a_narrow_terminal_has_the_conversations_in_one_line() -> None:
    app = played_app(PlayedPort(played(*STORY)))
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(app, "1 ask, 41 s")
        first = screen_text(app).splitlines()[0]
        assert first.startswith(" ◐ root  ○ reviewer 1  ? tester")
        await pilot.click(Rail, offset=(first.index("tester"), 0))
        await until(lambda: app.scene.seen == "tester")


async def test_the_rail_always_has_the_seen_conversation() -> None:
    app = played_app(PlayedPort(played(*many(60))))
    async with app.run_test(size=(80, 24)):
        await until(lambda: len(app.scene.board.conversations) == 61)
        app.scene.see("worker 47")
        await until_shown(app, "worker 47")
        assert "worker 47" in screen_text(app).splitlines()[0]


async def test_the_status_line_says_which_chain_runs_and_that_it_comes_back() -> None:
    app = played_app(PlayedPort(played(*STORY)))
    async with app.run_test(size=(160, 50)) as pilot:
        await until_shown(app, "root › tester, then back")
        await until_shown(app, "bubblewrap")
        last = screen_text(app).splitlines()[-1]
        for part in ("gpt-5.2", "workspace-write · untrusted", "bubblewrap", "75 % cached", "1,280 tok"):
            assert part in last
        await pilot.click(StatusLine, offset=(last.index("tester"), 0))
        await until(lambda: app.scene.seen == "tester")


async def test_several_chains_that_run_are_all_named() -> None:
    steps = [*BEGIN, opened("a", "root"), opened("b", "root"), *wrote("a", "Go.", "t1"), *wrote("b", "Go.", "t2")]
    app = played_app(PlayedPort(played(*steps)))
    async with app.run_test(size=(100, 30)):
        await until_shown(app, "a · b")


async def test_rights_are_shown_with_who_set_them() -> None:
    app = played_app(PlayedPort(played(*STORY)))
    async with app.run_test(size=(160, 50)):
        await until_shown(app, "root may")
        await until_shown(app, "fs ready")
        rows = screen_text(app).splitlines()
        text = " ".join(" ".join(row.rpartition("│")[2] for row in rows).split())
        assert "approval untrusted set by the session (flag --ask-for-approval)" in text
        assert "network off set by “root”; asked for on, which is not allowed here" in text
        assert "storage ttl 3600" in text
        assert "now none: a conversation that waits for it may do no more" in text
        assert "set by the agent reviewer" in text
        assert "✓ Read app.py" in text
        assert "fs ready 14 tools" in text


async def test_why_shows_what_would_happen_to_a_command() -> None:
    port = PlayedPort(played(*STORY))
    app = played_app(port)
    async with app.run_test(size=(160, 50)) as pilot:
        await until_shown(app, "root may")
        await pilot.press(*"/why rm -rf build", "enter")
        await until_shown(app, "asks you first")
        assert "rm is not known to be safe" in screen_text(app)
        assert port.called("rights/explain")[-1] == {"conversation_id": "root", "command": "rm -rf build"}


async def test_in_a_narrow_terminal_the_side_panel_takes_the_place_of_the_transcript() -> None:
    app = played_app(PlayedPort(played(*STORY)))
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(app, "basket")
        await pilot.press("f3")
        await until_shown(app, "root may")
        assert "basket" not in screen_text(app)
        await pilot.press("f3")
        await until_shown(app, "basket")
        await pilot.press("ctrl+r")
        await until_shown(app, "root may")
