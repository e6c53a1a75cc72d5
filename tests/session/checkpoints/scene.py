"""A workspace with its shadow repository, and conversations that write there without a session around them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

from tertulia.session.checkpoints.shadow import CapturedTree, ShadowRepository
from tertulia.session.checkpoints.windows import Window
from tertulia.session.checkpoints.workspace import RestoreOutcome, WorkspaceCheckpoints, new_checkpoint_id
from tests.session.worktrees.repository import variables


class Ticks:
    """A clock of which every look is later than the last."""

    def __init__(self) -> None:
        self.time = 1_000_000.0

    def __call__(self) -> float:
        self.time += 1.0
        return self.time


class Scene:
    """One workspace, seen by one session."""

    made: ClassVar[list[Scene]] = []
    """Those that are to be closed."""

    def __init__(self, folder: Path, session_id: str = "s1", ticks: Ticks | None = None, **options: Any) -> None:
        self.folder = folder
        self.top = Path(os.path.realpath(folder)) / "ws"
        self.top.mkdir(parents=True, exist_ok=True)
        self.variables = variables(folder / "home")
        self.data = folder / "data"
        self.shadow = ShadowRepository(self.data / "checkpoints", str(self.top), self.variables, **options)
        self.ticks = ticks or Ticks()
        self.place = WorkspaceCheckpoints(
            self.shadow, session_id, self.data / "worktrees" / "merging", self.variables, self.ticks
        )
        self.session_id = session_id
        self.made.append(self)

    def write(self, name: str, content: str | bytes = "", mode: int | None = None) -> Path:
        """A file of the workspace."""
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        if mode is not None:
            path.chmod(mode)
        return path

    def window(self, conversation: str = "c1", trace: str | None = None, **fields: Any) -> Window:
        """One that is to be opened."""
        return Window(
            id=new_checkpoint_id(), cause="task", session_id=self.session_id, conversation_id=conversation,
            trace_id=trace or os.urandom(4).hex(), began=0.0, before="", **fields,
        )  # fmt: skip

    async def begin(self, conversation: str = "c1", **fields: Any) -> Window:
        """A task begins to write."""
        return (await self.place.begin(self.window(conversation, **fields)))[0]

    async def end(self, window: Window) -> Window:
        """It has ended."""
        ended = await self.place.end(window)
        assert ended is not None
        return ended[0]

    async def capture(self) -> CapturedTree:
        """The workspace as it is now."""
        async with self.shadow.held():
            captured = await self.shadow.capture()
            self.shadow.manifest.write()
            return captured

    async def undo(self, conversation: str | None = "c1", id: str | None = None, **options: Any) -> RestoreOutcome:
        """What a client asks for."""
        wanted: dict[str, Any] = {"paths": (), "force": False, "dry_run": False, "expires": None, **options}
        return await self.place.restore(id, conversation, default="c1", **wanted)

    async def contents(self, tree: str) -> dict[str, str]:
        """Mode and content of each file of a tree."""
        git = await self.shadow.git()
        found: dict[str, str] = {}
        for line in (await git.run("ls-tree", "-r", "-z", "--full-tree", tree)).split(b"\0")[:-1]:
            facts, _, path = line.partition(b"\t")
            mode, _, id = facts.decode().split(" ")
            content = await git.run("cat-file", "blob", id)
            found[os.fsdecode(path)] = f"{mode} {content.decode('utf-8', 'replace')}"
        return found

    def files(self) -> dict[str, tuple[int, str]]:
        """What is in the workspace now: permissions with content or target, by path. Without `.git`."""
        found: dict[str, tuple[int, str]] = {}
        for here, folders, names in os.walk(self.top):
            folders[:] = [name for name in folders if name != ".git"]
            for name in (*names, *(name for name in folders if os.path.islink(os.path.join(here, name)))):
                path = Path(here, name)
                content = os.readlink(path) if path.is_symlink() else path.read_bytes().decode("latin-1")
                found[os.path.relpath(path, self.top)] = (path.lstat().st_mode & 0o777, content)
        return found
