"""A caller's repository in a sandboxed workspace and the worktree of a child, for tests of merges."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import tertulia
from tertulia.protocol.ids import ConversationId
from tertulia.session.merging.journal import TreeJournal
from tertulia.session.merging.merge import MergeOutcome, MergeSides, WorktreeMerge
from tertulia.session.worktrees.worktree import RepositoryTree, Worktree, write_state
from tertulia.tools.conv_merge import MergeMode
from tests.session.worktrees.repository import Repository, variables
from tests.tools.calling import call
from tests.tools.workbench import Answer, Workbench, workbench

LINES = "".join(f"line {number}\n" for number in range(20))


def ready() -> None:
    """The child does nothing."""


class Stage:
    """The two sides of a merge."""

    def __init__(self, bench: Workbench, repository: Repository, folder: Path) -> None:
        self.bench = bench
        self.ours = repository
        self.home = folder / "home"
        self.merges = folder / "data" / "merging"
        self.child = folder / "worktrees" / "ab12"
        self.worktree: Worktree | None = None

    async def begin(self) -> None:
        """Make the worktree, with all that the caller has not committed."""
        tree = await self.tree()
        head = await tree.head()
        assert head is not None
        index = self.home.parent / f"index-{os.urandom(4).hex()}"
        start = (await write_state(tree, index, [head], "Start\n")).commit
        self.ours.git("worktree", "add", "-q", "-b", "tertulia/ab12", str(self.child), start)
        self.worktree = Worktree(ConversationId("child"), tree.top, tree.common, self.child, "tertulia/ab12", start)

    async def tree(self) -> RepositoryTree:
        """The caller's."""
        return await RepositoryTree.find(self.ours.top, variables(self.home))

    def write(self, name: str, content: str | bytes) -> Path:
        """A file of the child's."""
        path = self.child / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    async def merge(self, mode: MergeMode = "apply", **more: Any) -> MergeOutcome:
        """What comes of it."""
        assert self.worktree is not None
        journal = TreeJournal.of(self.merges, str(self.ours.top))
        sides = MergeSides(self.worktree, await self.tree(), "a title", variables(self.home), journal)
        context = self.bench.context(call("conv_merge"))
        async with journal.held():
            return await WorktreeMerge(sides, mode, self.bench.place, context, more.get("check_idle", ready)).run()

    def state(self) -> dict[str, object]:
        """All of the caller's that a user could notice, but for the child's own branch."""
        found = self.ours.fingerprint()
        refs: Any = found["refs"]
        return {**found, "refs": {name: id for name, id in refs.items() if name != "refs/heads/tertulia/ab12"}}


@asynccontextmanager
async def stage(folder: Path, answer: Answer | None = None, **more: Any) -> AsyncIterator[Stage]:
    """A repository with a commit, and the worktree of a child that has done nothing yet."""
    async with workbench(folder, answer, **more) as bench:
        repository = Repository(bench.root)
        repository.write("text", LINES)
        repository.write("old", "old\n" * 5)
        (bench.root / "picture").write_bytes(b"\0\1\2")
        repository.commit("first")
        made = Stage(bench, repository, folder)
        await made.begin()
        yield made


async def open_with_worktree(session: tertulia.Session, **fields: Any) -> tertulia.Conversation:
    """A conversation with a worktree of its own, below the root."""
    return await session.open(workspace="worktree", **fields)
