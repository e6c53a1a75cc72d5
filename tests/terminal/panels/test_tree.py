"""The tree of conversations, through the screen."""

from __future__ import annotations

from tertulia.terminal.panels.tree import ConversationTree
from tests.terminal.played_port import STORY, PlayedPort, many, played, played_app
from tests.terminal.screen import screen_text, until, until_shown


async def test_the_tree_shows_state_name_and_what_each_does() -> None:
    app = played_app(PlayedPort(played(*STORY)))
    async with app.run_test(size=(100, 30)):
        await until_shown(app, "1 ask")
        text = screen_text(app)
        assert "Conversations 3" in text
        assert "◐ root" in text
        assert "waits for tester" in text
        assert "? └ tester" in text
        assert "asks you, 41 s left" in text
        assert "○ └ reviewer" in text
        assert "1,280 tokens" in text


async def test_keys_walk_the_tree_and_enter_shows_a_conversation() -> None:
    app = played_app(PlayedPort(played(*STORY)))
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, "1 ask")
        await pilot.press("ctrl+t", "j", "enter")
        await until(lambda: app.scene.seen == "reviewer")
        await pilot.press("G", "enter")
        await until(lambda: app.scene.seen == "tester")
        await pilot.press("g", "enter")
        await until(lambda: app.scene.seen == "root")
        await pilot.press("ctrl+t")
        await until(lambda: not isinstance(app.focused, ConversationTree))


async def test_folding_hides_what_is_below_and_unfolding_shows_it() -> None:
    app = played_app(PlayedPort(played(*STORY)))
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, "1 ask")
        await pilot.press("ctrl+t", "h")
        await until_shown(app, "root ▸")
        assert "└ reviewer" not in screen_text(app)
        await pilot.press("l")
        await until_shown(app, "└ reviewer")
        await pilot.press("l", "h")
        await until_shown(app, "root")
        assert app.scene.panes.tree.has_focus


async def test_a_filter_is_typed_and_taken_away() -> None:
    app = played_app(PlayedPort(played(*STORY)))
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, "1 ask")
        await pilot.press("ctrl+t", "slash", *"rev")
        await until_shown(app, "/rev_")
        tree = screen_text(app)
        assert "reviewer" in tree
        assert "? └ tester" not in tree
        await pilot.press("enter", "enter")
        await until(lambda: app.scene.seen == "reviewer")
        await pilot.press("slash", "escape")
        await until_shown(app, "? └ tester")


async def test_of_200_conversations_those_in_sight_are_drawn_and_active_ones_are_found() -> None:
    app = played_app(PlayedPort(played(*many(200))))
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, "Conversations 201")
        await pilot.press("ctrl+t", "G")
        await until_shown(app, "worker 199")
        assert "worker 100" not in screen_text(app)
        await pilot.press("a")
        await until_shown(app, "Active 20 of 201")
        await pilot.press("g")
        await until_shown(app, "worker 30")
        assert "worker 31" not in screen_text(app)


async def test_keys_ask_for_a_new_conversation_an_end_and_an_interruption_of_a_branch() -> None:
    port = PlayedPort(played(*STORY))
    app = played_app(port)
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, "1 ask")
        await pilot.press("ctrl+t", "G", "i")
        await until(lambda: port.called("conversation/interrupt"))
        assert port.called("conversation/interrupt") == [{"conversation_id": "tester", "scope": "branch"}]
        await pilot.press("n")
        await until(lambda: port.called("conversation/open"))
        assert port.called("conversation/open") == [{"parent_id": "tester"}]
        await pilot.press("x")
        await until(lambda: port.called("conversation/close"))
        assert port.called("conversation/close") == [{"conversation_id": "tester"}]
        await pilot.press("g", "x")
        await until_shown(app, "root stays as long as the session")
        assert len(port.called("conversation/close")) == 1


async def test_a_click_shows_a_conversation() -> None:
    app = played_app(PlayedPort(played(*STORY)))
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, "1 ask")
        await pilot.click(ConversationTree, offset=(6, 3))
        await until(lambda: app.scene.seen == "reviewer")
