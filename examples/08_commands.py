"""An agent that runs commands: inside its directory it may, outside of it a person decides, and every step is told."""

import asyncio
import tempfile
from pathlib import Path

import tertulia
from tertulia.testing import ScriptedModel, call

PATCH = """*** Begin Patch
*** Add File: notes/tea.md
+# Tea
+Green, black, or none.
*** End Patch"""


def model(outside: Path) -> ScriptedModel:
    """Counts words, writes a file, and then wants to write where it may not."""
    leave = {"sandbox_permissions": "require_escalated", "justification": "The index lives next door."}
    return ScriptedModel(
        [
            call("apply_patch", PATCH),
            call("shell", {"command": ["wc", "-w", "notes/tea.md"]}),
            call("shell", {"command": ["touch", str(outside / "sneaked")]}),
            call("shell", {"command": ["touch", str(outside / "asked")], **leave}),
            call("shell", {"command": ["touch", str(outside / "refused")], **leave}),
            "Done.",
        ]
    )


async def main(place: Path) -> None:
    workspace, outside = place / "workspace", place / "outside"
    workspace.mkdir()
    outside.mkdir()
    ends: list[tertulia.ToolCallEnd] = []
    async with tertulia.Session.start(tertulia.Settings(model=model(outside), cwd=str(workspace))) as session:
        # This loop answers approvals, and says so: to follow a stream without `approver` is to look on.
        async for event in session.root.stream("Take a note about tea.", approver=True):
            match event.data:
                case tertulia.ApprovalRequest(approval_id=approval_id, title=title):
                    print("asked:", title)
                    await session.approvals.resolve(approval_id, "deny" if "refused" in title else "allow")
                case tertulia.ToolCallEnd() as end:
                    print(f"{end.name:12} {'ok' if end.success else 'failed'}")
                    ends.append(end)
                case _:
                    pass
    if "sandbox_unavailable" in ends[0].output:
        print(f"there is no sandbox here, so nothing was run: {ends[0].output}")
        return
    assert [end.success for end in ends] == [True, True, False, True, False]
    assert (workspace / "notes" / "tea.md").read_text() == "# Tea\nGreen, black, or none.\n"
    assert [path.name for path in outside.iterdir()] == ["asked"]


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(Path(folder)))
