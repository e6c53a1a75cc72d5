"""Tools that fit the model: exact edits for one conversation, patches for its child, searches for both."""

import asyncio
import tempfile
from pathlib import Path

import tertulia
from tertulia.testing import RecordedEvents, ScriptedModel, call, say

PATCH = "*** Begin Patch\n*** Update File: shop.py\n@@\n-TEA = 3.0\n+TEA = 3.5\n*** End Patch"

model = ScriptedModel(
    [
        say("", call("grep", {"pattern": "TEA", "glob": "*.py"}), call("glob", {"pattern": "*.py"})),
        say("", call("view", {"path": "shop.py"})),
        say("", call("edit", {"path": "shop.py", "edits": [{"old": "TEA = 2.5", "new": "TEA = 3.0"}]})),
        "Tea costs 3.00 now.",
    ]
)
child_model = ScriptedModel([say("", call("apply_patch", {"input": PATCH})), "And now 3.50."])


async def main(folder: str) -> None:
    settings = tertulia.Settings(model=model, cwd=folder, tool_profile="editor")
    async with tertulia.Session.start(settings) as session, RecordedEvents(session) as events:
        names = [tool.name for tool in session.root.tools()]
        reply = await session.root.message("Raise the price of tea to 3.00.")
        print(names[:6], reply.text)
        assert names[:6] == ["shell", "view", "edit", "write", "grep", "glob"]

        patching = await session.open(model=child_model, tool_profile="patch")
        print((await patching.message("3.50, please.")).text)
    ends = [event.data for event in events.seen if isinstance(event.data, tertulia.ToolCallEnd)]
    found = next(end.output for end in ends if end.name == "grep")
    print(found)
    assert found == "shop.py\n2:TEA = 2.5\n[1 line]"


with tempfile.TemporaryDirectory(dir=Path.home()) as workspace:
    shop = Path(workspace, "shop.py")
    shop.write_bytes(b"# prices\r\nTEA = 2.5\r\n")
    asyncio.run(main(workspace))
    assert shop.read_bytes() == b"# prices\r\nTEA = 3.5\r\n"  # its line ends are kept
