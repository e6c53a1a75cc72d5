"""A program of yours is asked before each command, and refuses one; the task goes on."""

import asyncio
import sys
import tempfile

import tertulia
from tertulia.testing import ScriptedModel, call, say

# Reads a question as JSON from standard input and prints its answer; nothing means "go on".
GUARD = """
import json, sys

question = json.load(sys.stdin)
if "rm" in question["arguments"]["command"]:
    print(json.dumps({"decision": "refuse", "reason": "nothing is removed here"}))
else:
    print(json.dumps({"narrow": {"sandbox": "read-only"}}))
"""


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = ScriptedModel(
            [
                say("", call("shell", {"command": ["rm", "-rf", "notes"]})),
                say("", call("shell", {"command": ["ls"]})),
                "I left the notes alone.",
            ]
        )
        guard = {"on": ["before_tool"], "tools": ["shell"], "command": [sys.executable, "-c", GUARD]}
        settings = tertulia.Settings(model=model, hooks={"guard": guard}, cwd=folder)
        decisions: list[tertulia.HookDecision] = []
        async with tertulia.Session.start(settings) as session:
            async for event in session.root.stream("Clean up."):
                if isinstance(event.data, tertulia.HookDecision):
                    decisions.append(event.data)
                elif isinstance(event.data, tertulia.ToolCallEnd):
                    print(event.data.output[:80])
        for decision in decisions:
            print(decision.hook, decision.decision, decision.reason or ", ".join(decision.narrowed))
        assert [decision.decision for decision in decisions] == ["refuse", "continue"]
        assert decisions[1].narrowed == ("sandbox",)


asyncio.run(main())
