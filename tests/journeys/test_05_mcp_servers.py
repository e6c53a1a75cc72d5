"""I have two MCP servers, and want my agent to use the one that works and to tell me of the one that does not.

Issue 19, "Done when", journey 5.
"""

from __future__ import annotations

import json
import sys

from tests.deadlines import HANG_S
from tests.journeys.person import PROMPT, Person
from tests.journeys.provider import calls, serving

SERVER = """
import json
import sys

TOOL = {"name": "read", "description": "Read a note", "inputSchema": {"type": "object"}}
ANSWERS = {
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "Buy tea."}]},
}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "notes", "version": "1"}
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    elif message["method"] in ANSWERS:
        result = ANSWERS[message["method"]]
    else:
        error = {"code": -32601, "message": "there is no such method"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
"""A server that someone wrote without any library."""


def test_a_server_is_added_tried_used_and_taken_out(person: Person) -> None:
    program = person.writes("notes.py", SERVER)
    with serving(calls("notes__read"), "Your note says: buy tea.", "Nothing to add.") as provider:
        person.configures(f'model = "mine/qwen3"\n[model_providers.mine]\nbase_url = "{provider.url}"\nwire = "chat"\n')

        # The whole line in quotes is the usual slip; what to type instead is said.
        slip = person.tertulia("mcp", "add", "notes", f"{sys.executable} {program}")
        assert slip.code == 2
        assert "apart" in slip.err
        # On a busy machine it may not be ready for the first task otherwise.
        must = ("--set", "required=true", "--set", f"startup_timeout_sec={HANG_S}")
        assert person.tertulia("mcp", "add", "notes", *must, "--", sys.executable, str(program)).code == 0
        tried = person.tertulia("mcp", "test", "notes")
        assert tried.code == 0, tried.out
        assert "notes__read" in tried.out

        # The tool asks before it is used, and I see with what.
        with person.sits_at("--plain") as screen:
            screen.waits_for(PROMPT)
            screen.types("What is on my list?\n")
            assert "call read of the MCP server notes" in screen.waits_for("no, because …: ")
            screen.types("1\n")
            screen.waits_for("Your note says: buy tea.")
            screen.waits_for(PROMPT)
            screen.types("/exit\n")
            assert screen.ends() == 0
        assert "Buy tea." in provider.asked[1].text
        assert "notes__read" in json.dumps(provider.asked[0].body["tools"])

        # A second one that cannot start: named once with the reason, and it holds up nothing.
        assert person.tertulia("mcp", "add", "broken", "--", sys.executable, "-c", "raise SystemExit(3)").code == 0
        result = person.tertulia("exec", "Anything else?")
        assert (result.code, result.out) == (0, "Nothing to add.\n")
        none = person.tertulia("exec", "--no-mcp", "And without them?")
        assert none.code == 0
        assert "broken" not in none.err
        assert "notes__read" not in json.dumps(provider.asked[-1].body.get("tools", []))
        doctor = person.tertulia("doctor")
        assert doctor.code == 1
        assert "the MCP server broken fails: it exited with code 3" in doctor.out
        assert person.tertulia("mcp", "rm", "broken").code == 0
        assert "broken" not in person.tertulia("mcp", "ls").out

        # A third that must be there and never answers: I see what is waited for, and why it ended.
        must = ("--set", "required=true", "--set", "startup_timeout_sec=0.5")
        silent = (sys.executable, "-c", "import sys; sys.stdin.read()")
        assert person.tertulia("mcp", "add", "slow", *must, "--", *silent).code == 0
        waited = person.tertulia("exec", "Are you all there?")
        assert (waited.code, waited.out) == (1, "")
        assert "MCP server 'slow' is required and failed: it did not start within 0.5 s" in waited.err
