"""Commands about stored sessions and about requests to models. They read only the record on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.protocol.ids import ConversationId
from tertulia.terminal.actions import Actions
from tertulia.terminal.panels.page import PageContent, PageRow
from tertulia.terminal.scene import Scene
from tertulia.terminal.sessions.picker_screen import PickedSession, PickerScreen
from tertulia.terminal.sessions.replay import ForkPoint, ReplayScreen, compared_prompts, recorded_prompt

ROOT = ConversationId("root")
"""The name by which the root of any session is found."""


def home_of(scene: Scene) -> Path:
    """The data directory with the stored sessions; InvalidParamsError where the screen has none."""
    if scene.home is None:
        raise InvalidParamsError("stored sessions are read where they are stored: use the machine of the session")
    return scene.home


async def show_prompt(scene: Scene, *, compared: bool, ago: int = 0) -> None:
    """Show a request of the seen conversation to its model, or what is new in it since the request before.

    `ago`: so many requests before the last one.
    """
    home, session_id = home_of(scene), scene.board.session_id
    if not scene.stored or session_id is None:
        raise InvalidParamsError("this session is not stored, so what was sent cannot be read again")
    scene.show_page(await asyncio.to_thread(_read, home, session_id, scene.seen, compared, ago))


def _read(home: Path, session_id: str, seen: ConversationId | None, compared: bool, ago: int) -> PageContent:
    # Imported here, in a thread: no other part of the screen reads records.
    from tertulia.terminal.sessions.recording import Recording

    recording = Recording.open(home, session_id)
    place = len(recording.steps) - 1
    if compared:
        return compared_prompts(recording, place, seen)
    for _ in range(ago):
        at = recording.request_before(place, seen)
        if at is None:
            break
        place = at - 1
    page = recorded_prompt(recording, place, seen)
    hint = PageRow(f"/prompt {ago + 1} shows the request before it, /replay goes to any and forks there", style="dim")
    return msgspec.structs.replace(page, rows=(page.rows[0], hint, *page.rows[1:]))


def pick_session(scene: Scene, actions: Actions, leave_for: Callable[[str], None]) -> None:
    """Let the person choose a stored session."""

    def picked(choice: PickedSession | None) -> None:
        match choice:
            case None:
                pass
            case PickedSession(act="resume"):
                resume_session(scene, leave_for, choice.session_id)
            case PickedSession(act="replay" | "watch"):
                replay_session(scene, actions, leave_for, choice.session_id, follows=choice.act == "watch")
            case _:
                scene.run(_fork(scene, leave_for, ForkPoint(choice.session_id, ROOT, None)))

    scene.app.push_screen(PickerScreen(home_of(scene), scene.clock, own=scene.board.session_id), picked)


async def find_stored(scene: Scene, beginning: str) -> str:
    """The id of the one stored session that begins so; NotFoundError, or InvalidParamsError for several."""
    return await asyncio.to_thread(_find, home_of(scene), beginning)


def _find(home: Path, beginning: str) -> str:
    # Imported here, in a thread, as above.
    from tertulia.terminal.sessions.stored_list import StoredList

    return StoredList(home).find(beginning)


def resume_session(scene: Scene, leave_for: Callable[[str], None], session_id: str) -> None:
    """Close this session and go on with another one."""
    if session_id == scene.board.session_id:
        scene.say("this is the session that you see")
    else:
        leave_for(session_id)


async def _fork(scene: Scene, leave_for: Callable[[str], None], point: ForkPoint) -> None:
    """Copy another session up to a point, close this one, and go on with the copy."""
    if scene.fork_stored is None:
        raise InvalidParamsError("a stored session is copied where it is stored: use the machine of the session")
    scene.say("making the copy")
    leave_for(await scene.fork_stored(point.session_id, point.conversation_id, point.item_id))


def replay_session(
    scene: Scene, actions: Actions, leave_for: Callable[[str], None], session_id: str, *, follows: bool = False
) -> None:
    """Let the person step through a stored session.

    A fork of a conversation of the current session opens in it, that of another session in the place of this one.
    """

    def chosen(point: ForkPoint | None) -> None:
        if point is not None and point.session_id == scene.board.session_id:
            scene.leave_side_page()
            scene.run(actions.fork_and_tell(point.conversation_id, point.item_id))
        elif point is not None:
            scene.run(_fork(scene, leave_for, point))

    scene.app.push_screen(ReplayScreen(home_of(scene), session_id, follows=follows), chosen)
