"""What is stored, as a Codex client lists it, and what was put away."""

from __future__ import annotations

from pathlib import Path

import pytest

from tertulia.errors import NotFoundError
from tertulia.server.codex.params import ListThreads
from tertulia.server.codex.threads import ARCHIVED_FILE, StoredThreads
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings, current_environment
from tertulia.testing import ScriptedModel

NOBODY = "00000000-0000-4000-8000-000000000000"


async def stored(cwd: Path, text: str | None = "hello") -> str:
    async with Session.start(Settings(model=ScriptedModel(["hi"]), cwd=str(cwd))) as session:
        if text is not None:
            await session.root.message(text)
        return session.id


def stored_threads() -> StoredThreads:
    return StoredThreads(current_environment().home)


async def test_only_what_somebody_said_something_in_is_listed(tmp_path: Path) -> None:
    """Issue 10 (5): thread/list."""
    threads = await stored(tmp_path)
    await stored(tmp_path, None)
    listed = stored_threads().listed(ListThreads(), {threads: {"type": "idle"}})
    assert [(thread["id"], thread["status"]) for thread in listed["data"]] == [(threads, {"type": "idle"})]
    assert listed["nextCursor"] is None


async def test_a_stored_thread_is_read_with_or_without_its_turns(tmp_path: Path) -> None:
    """Issue 10 (5): thread/read."""
    id = await stored(tmp_path)
    assert stored_threads().read(id, turns=False)["turns"] == []
    (turn,) = stored_threads().read(id, turns=True)["turns"]
    assert stored_threads().round_of(id, turn["id"]) == 1
    assert stored_threads().cwd(id) == str(tmp_path)
    assert stored_threads().created(id, 0.0) > 0
    assert stored_threads().created(NOBODY, 7.0) == 7.0
    with pytest.raises(NotFoundError):
        stored_threads().read(NOBODY, turns=False)


async def test_the_list_of_what_is_put_away_names_nothing_that_is_gone(tmp_path: Path) -> None:
    """Issue 10 (5): thread/archive; the file is private and small."""
    first, second = await stored(tmp_path), await stored(tmp_path)
    home = current_environment().home
    assert stored_threads().archived() == set()
    stored_threads().archive(first, away=True)
    with (home / ARCHIVED_FILE).open("a") as file:
        file.write(f"{NOBODY}\n")
    stored_threads().archive(second, away=True)
    assert stored_threads().archived() == {first, second}
    stored_threads().archive(first, away=False)
    assert stored_threads().archived() == {second}
    assert (home / ARCHIVED_FILE).stat().st_mode & 0o777 == 0o600
    before = (home / ARCHIVED_FILE).read_bytes()
    with pytest.raises(NotFoundError):
        stored_threads().archive(NOBODY, away=True)
    assert (home / ARCHIVED_FILE).read_bytes() == before
