"""Own workspaces against what is hostile or unlucky: files that are masked, settings that hide changes, odd files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tertulia
from tertulia.protocol.ids import ConversationId, SessionId
from tertulia.session.worktrees.lifecycle import WorktreeFolder, WorktreeLife
from tertulia.session.worktrees.worktree import Worktree, snapshot
from tertulia.testing import RecordedEvents, ScriptedModel, call, say
from tests.sandbox.confined import need
from tests.session.worktrees.repository import committed, variables

SESSION = SessionId("1f0e0000-0000-4000-8000-000000000000")
ID = ConversationId("81bc2f00-0000-4000-8000-000000000000")


def life(place: Path) -> WorktreeLife:
    return WorktreeLife(WorktreeFolder(place / "ours"), variables(place / "home"))


async def test_what_is_masked_comes_into_no_worktree_and_no_commit(tmp_path: Path) -> None:
    need("bubblewrap")
    repository = committed(tmp_path / "repo")
    repository.write(".env", "SECRET-1\n")
    repository.write("keys/deep/one", "SECRET-2\n")
    repository.write("src/b.txt", "SECRET-3\n")
    (tmp_path / "spelled").symlink_to(repository.top)
    masks = [str(repository.top / ".env"), str(tmp_path / "spelled" / "keys"), str(repository.top / "src/b.txt")]
    reading = {"command": ["sh", "-c", "cat .env keys/deep/one src/b.txt; git log --all -p; git fsck --lost-found"]}
    merging = {"mode": "apply"}

    def merge(asked: object) -> object:
        return say("", call("conv_merge", {"conversation_id": session.conversations()[1].id, **merging}))

    model = ScriptedModel(
        [
            say("", call("conv_create", {"user_instruction": "Read.", "workspace": "worktree"})),
            say("", call("shell", reading), call("shell", {"command": ["sh", "-c", "echo made > made"]})),
            "Read it.",
            merge,
            say("", call("shell", {"command": ["git", "cat-file", "--batch-all-objects", "--batch"]})),
            "Done.",
        ]
    )
    settings = tertulia.Settings(model=model, cwd=str(repository.top), approval_policy="never", masks={"add": masks})
    async with tertulia.Session.start(settings) as session, RecordedEvents(session) as events:
        assert (await session.root.message("Ask.")).text == "Done."
    outputs = [event.data.output for event in events.seen if isinstance(event.data, tertulia.ToolCallEnd)]
    assert len(outputs) == 5
    assert not [output for output in outputs if "SECRET" in output]
    assert (repository.top / "made").read_text() == "made\n"
    told = [event.data.message for event in events.seen if event.type == "warning"]
    assert told[0].endswith("uncommitted changes: src/b.txt (masked), .env (masked), keys/deep/one (masked)")


@pytest.mark.parametrize(
    ("key", "value"), [("core.ignoreStat", "true"), ("core.trustctime", "false"), ("core.checkStat", "minimal")]
)
async def test_no_setting_of_a_repository_hides_work(tmp_path: Path, key: str, value: str) -> None:
    """With `core.ignoreStat` git takes what it has written for unchanged: the work would be lost when it is closed."""
    repository = committed(tmp_path / "repo")
    repository.git("config", key, value)
    alive = life(tmp_path)
    worktree = (await alive.make(SESSION, ID, str(repository.top), None)).worktree
    place = Path(worktree.path, "a.txt")
    before = place.stat()
    place.write_text("one\nTWO\nthree\n")
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not await alive.is_clean(worktree)
    state = await snapshot(Worktree.of(worktree), variables(tmp_path / "home"))
    assert repository.tree(state.commit)["a.txt"] == "100644 one\nTWO\nthree"
