"""Take back what an agent did to files: shown first, then done, and undone again."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import tertulia
from tertulia.testing import ScriptedModel, call


def content(path: Path) -> str | None:
    """What a file holds; None where there is none."""
    return path.read_text() if path.exists() else None


def write(path: Path, text: str) -> None:
    """Write a file by hand."""
    path.write_text(text)


async def main() -> None:
    """Let a scripted agent change files, and undo it."""
    with tempfile.TemporaryDirectory() as folder:
        notes, draft = Path(folder, "notes.txt"), Path(folder, "draft.txt")
        write(notes, "written by hand\n")
        script = "echo rewritten > notes.txt; echo draft > draft.txt"
        model = ScriptedModel([call("shell", {"command": ["sh", "-c", script]}), "I rewrote your notes."])
        settings = tertulia.Settings(model=model, cwd=folder, checkpoints=True, approval_policy="never")
        async with tertulia.Session.start(settings) as session:
            await session.root.message("Improve my notes")
            print(f"the agent: {content(notes)!r}")

            shown = await session.root.undo(dry_run=True)
            for file in shown.files:
                print(f"would be undone: {file.path} ({file.status})")
            assert [file.path for file in shown.files] == ["draft.txt", "notes.txt"]

            undone = await session.root.undo()
            print(f"after the undo: {content(notes)!r}")
            assert content(notes) == "written by hand\n"
            assert content(draft) is None

            # An undo is a checkpoint itself, so it can be undone.
            await session.root.undo(to=undone.undo_id)
            assert content(notes) == "rewritten\n"
            print([f"{entry.cause}: {entry.files} files" for entry in await session.checkpoints.list()])


if __name__ == "__main__":
    asyncio.run(main())
