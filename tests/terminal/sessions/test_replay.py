"""A stored session on the screen: moved through by keys, its prompts shown and compared, woven and forked."""

from __future__ import annotations

from pathlib import Path

from tertulia.terminal.sessions.replay import ForkPoint, ReplayApp, ReplayScreen
from tests.terminal.screen import screen_text, until, until_shown
from tests.terminal.sessions.made_sessions import DELEGATION, store_session


def replaying(home: Path, session_id: str, **options: bool) -> ReplayApp:
    return ReplayApp(lambda: ReplayScreen(home, session_id, **options))


async def test_it_opens_at_the_end_and_arrows_go_back_and_on(home: Path, work: Path) -> None:
    app = replaying(home, await store_session(work, "One.", "Two.", messages=("first", "second")))
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, "Two.")
        assert "session" in screen_text(app) or "task complete" in screen_text(app)
        await pilot.press("home")
        await until(lambda: "Two." not in screen_text(app))
        assert " 1 / " in screen_text(app)
        await pilot.press("shift+right")
        await until_shown(app, "asked the model")
        await pilot.press("end")
        await until_shown(app, "Two.")
        await pilot.press("escape")
        await until(lambda: not app.is_running or app.return_code is not None)
    assert app.return_value is None


async def test_the_prompt_of_a_request_is_shown_with_its_verdict_and_compared(home: Path, work: Path) -> None:
    app = replaying(home, await store_session(work, "One.", "Two.", messages=("first", "second")))
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, "Two.")
        await pilot.press("p")
        await until_shown(app, "rebuilt, byte for byte what was sent")
        await pilot.press("escape")
        await until_shown(app, "Two.")
        await pilot.press("equals_sign")
        await until_shown(app, "compared")
        await pilot.press("home", "p")
        await until_shown(app, "no request to a model stands before this")


async def test_conversations_are_woven_and_a_copy_begins_where_one_stands(home: Path, work: Path) -> None:
    id = await store_session(work, *DELEGATION)
    app = replaying(home, id)
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, "The reviewer says")
        alone = screen_text(app)
        await pilot.press("w")
        await until(lambda: screen_text(app).count("reviewer") > alone.count("reviewer"))
        await pilot.press("w", "W")
        await until_shown(app, "── reviewer ──")
        await pilot.press("W")
        await until(lambda: "── reviewer ──" not in screen_text(app))
        await pilot.press("f")
        await until(lambda: app.return_value is not None)
    assert isinstance(app.return_value, ForkPoint)
    assert app.return_value.session_id == id


async def test_what_its_owner_adds_is_followed(home: Path, work: Path) -> None:
    from tertulia import Session, Settings
    from tertulia.testing import ScriptedModel

    model = ScriptedModel(["One.", "Two."])
    async with Session.start(Settings(model=model, cwd=str(work))) as session:
        await session.root.message("first")
        app = replaying(home, session.id, follows=True)
        async with app.run_test(size=(80, 24)):
            await until_shown(app, "One.")
            await session.root.message("second")
            await until_shown(app, "Two.")


async def test_what_cannot_be_read_is_said(home: Path, work: Path) -> None:
    app = replaying(home, "00000000-0000-4000-8000-000000000000")
    async with app.run_test(size=(80, 24)):
        await until_shown(app, "there is no session 00000000")
