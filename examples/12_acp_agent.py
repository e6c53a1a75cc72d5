"""An agent in an editor: the editor's side of ACP. docs/acp.md has what Zed, JetBrains and Neovim need for it."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, cast

try:
    import acp
    from acp import schema
except ImportError:
    print("This example needs the extra: pip install 'tertulia[acp]'")
    sys.exit(0)

SCRIPT = [
    {"tool_calls": [{"name": "shell", "arguments": {"command": ["touch", "made-by-the-agent"]}}]},
    {"text": "The file is there."},
]


class Editor:
    # Of `acp.Client` as much as this agent uses.
    def __init__(self) -> None:
        self.said = ""
        self.asked: list[str] = []

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        if isinstance(update, schema.AgentMessageChunk):
            self.said += update.content.text
        elif isinstance(update, schema.ToolCallStart):
            print("tool call:", update.title)

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **more: Any) -> Any:
        self.asked.append(tool_call.title)
        yes = schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return acp.RequestPermissionResponse(outcome=yes)

    def on_connect(self, conn: Any) -> None: ...


async def main() -> None:
    flags = ("-m", "scripted/script.json", "-a", "untrusted", "-s", "danger-full-access")
    command = (sys.executable, "-m", "tertulia", "acp", *flags)
    editor = Editor()
    async with acp.spawn_agent_process(cast(acp.Client, editor), *command, env=dict(os.environ)) as (agent, _):
        await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        session = await agent.new_session(cwd=str(Path.cwd()))
        done = await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("Make a file.")])
    print(editor.said)
    assert done.stop_reason == "end_turn"
    assert editor.asked == ["run: touch made-by-the-agent"], "you are asked, and said yes"


Path("script.json").write_text(json.dumps(SCRIPT))
asyncio.run(main())
assert Path("made-by-the-agent").exists()
