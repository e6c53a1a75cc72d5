"""Other programs as conversations over JSON-RPC, from the public page: what they are told, and how they may end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.contract.app_server import Refused, Server, serving, surroundings, write_script
from tests.forked import run_program

# Writes down what it was told, and answers by what the file `answer` holds: lines to print, then how to go.
AGENT = """
import json, os, sys
told = sys.stdin.read()
with open("told.jsonl", "a") as file:
    file.write(json.dumps({"told": told, "argv": sys.argv[1:], "home": os.environ.get("HOME")}) + "\\n")
answer = json.load(open("answer.json"))
sys.stderr.write(answer.get("stderr", ""))
print(answer["print"].replace("TOLD", str(len(told))), flush=True)
sys.exit(answer.get("exit", 0))
"""


def flags() -> list[str]:
    """The tables of two programs: one that prints its answer, one that speaks as `codex exec --json` does."""
    command = json.dumps([sys.executable, "-c", AGENT])
    found: list[str] = []
    for name, extra in (("plain", ""), ("lines", 'output="codex-jsonl", resume=["resume", "{id}"], ')):
        found += ["-c", f"executors.{name}={{command={command}, {extra}sandbox={{workspace-write=[]}}}}"]
    return found


def answers(folder: Path, reply: str | list[Any] = "fine", **more: Any) -> None:
    """What the program does next; a list is lines of JSON."""
    text = reply if isinstance(reply, str) else "\n".join(map(json.dumps, reply))
    (folder / "answer.json").write_text(json.dumps({"print": text, **more}))


def received_prompts(folder: Path) -> list[Any]:
    return [json.loads(line) for line in (folder / "told.jsonl").read_text().splitlines()]


async def opened(server: Server, backend: str, **fields: Any) -> str:
    return (await server.call("conversation/open", backend=backend, **fields))["conversation_id"]


async def test_each_run_is_told_what_was_said_and_the_first_nothing_else(tmp_path: Path) -> None:
    """S003-03, S003-07, S003-15, S003-16, S003-20, X-54: names of senders, and a step before as its own section."""
    async with serving(tmp_path, [], *flags()) as server:
        conversation = await opened(server, "command:plain")
        for number, sender in enumerate(("ann", "bob", None)):
            answers(tmp_path, f"answer {number}")
            reply = await server.say(f"question {number}", conversation, **({"sender": sender} if sender else {}))
            assert (reply["status"], reply["last_assistant_message"]) == ("completed", f"answer {number}")
        result = {"value": "the draft", "session_id": "SECRET"}
        await server.say("review it", conversation, sender="cy", task_type="chat", previous_result=result)
        history = await server.call("conversation/history", conversation_id=conversation)
        assert [entry["text"] for entry in history["entries"]][:3] == ["question 0", "answer 0", "question 1"]
    first, second, third, last = (run["told"] for run in received_prompts(tmp_path))
    assert first == "question 0"
    assert second.index("## Conversation History") < second.index("User[ann]: question 0")
    assert second.endswith("## Current User Message\n\nquestion 1")
    for number in range(2):
        assert third.count(f"question {number}") == third.count(f"answer {number}") == 1
    assert "User[bob]: question 1" in third
    assert last.endswith("## Current User Message\n\nreview it\n\n## Previous execution result\n\nthe draft")
    assert "User: question 2" in last
    assert "SECRET" not in last


STARTED = {"type": "thread.started", "thread_id": "t-1"}
SAID = {"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": "half an answer"}}
COMPLETED = {"type": "turn.completed", "usage": {"input_tokens": 7, "cached_input_tokens": 2, "output_tokens": 3}}

ENDINGS: list[tuple[Any, dict[str, Any], str, str]] = [
    ([STARTED, SAID, COMPLETED], {}, "completed", "task_complete"),
    ([STARTED, SAID], {}, "interrupted", "turn_aborted"),
    ("<html>nothing to do with it</html>", {}, "interrupted", "turn_aborted"),
    ([STARTED, {"type": "turn.failed", "error": {"message": "out of quota"}}], {"exit": 1}, "failed", "task_complete"),
    ([STARTED, SAID], {"exit": 3, "stderr": "it broke here\n"}, "failed", "task_complete"),
]


async def test_every_run_has_one_end(tmp_path: Path) -> None:
    """S003-26, S003-30; the fine print: an output that ends without a terminal line was interrupted."""
    async with serving(tmp_path, [], *flags()) as server:
        for spoken_text, how, status, type_ in ENDINGS:
            answers(tmp_path, spoken_text, **how)
            start = len(server.lines)
            conversation = await opened(server, "command:lines")
            reply = await server.say("go", conversation)
            assert reply["status"] == status
            ends = [
                event["type"]
                for line in server.lines[start:]
                if line.get("method") == "event" and (event := line["params"])["conversation_id"] == conversation
                if event["type"] in ("task_complete", "turn_aborted")
            ]
            assert ends == [type_]
        aborted = await server.event("turn_aborted")
        assert aborted["data"]["reason"] == "interrupted"
        assert "it broke here" in reply["error"]["message"]
        usage = (await server.event("task_complete"))["data"]["usage"]
        assert (usage["input_tokens"], usage["cached_input_tokens"], usage["output_tokens"]) == (7, 2, 3)
        answers(tmp_path, [STARTED, SAID, COMPLETED])
        assert (await server.say("still there?", conversation))["status"] == "completed"


async def test_its_own_memory_is_used_where_it_fits_and_never_both(tmp_path: Path) -> None:
    """S003-25, S003-32, X-58: by id with the bare message; any other policy than full has a home that goes."""
    async with serving(tmp_path, [], *flags()) as server:
        answers(tmp_path, [STARTED, SAID, COMPLETED])
        conversation = await opened(server, "command:lines")
        for text in ("one", "two"):
            await server.say(text, conversation)
        await server.call("conversation/set_context", conversation_id=conversation, user_instructions="Be brief.")
        await server.say("three", conversation)
        private = await opened(server, "command:lines", storage_policy="headers_only")
        for text in ("four", "five"):
            await server.say(text, private)
    one, two, three, four, five = received_prompts(tmp_path)
    assert (one["argv"], one["told"]) == ([], "one")
    assert (two["argv"], two["told"]) == (["resume", "t-1"], "two")
    assert three["argv"] == []
    assert "User: two" in three["told"]
    assert five["argv"] == []
    assert "User: four" in five["told"]
    assert one["home"] not in (four["home"], five["home"])
    assert four["home"] != five["home"]
    assert not os.path.exists(four["home"])


async def test_what_cannot_work_is_refused_before_anything_is_there(tmp_path: Path) -> None:
    """The fine print of executors: unknown, cannot ask; a missing program fails the task and says which."""
    gone = ["-c", 'executors.gone={command=["no-such-agent"], sandbox={workspace-write=[]}}']
    async with serving(tmp_path, [], *flags(), *gone) as server:
        for fields in (
            {"backend": "command:nobody"},
            {"backend": "acp:nobody"},
            {"backend": "plain"},
            {"backend": "command:plain", "approval_policy": "untrusted"},
        ):
            with pytest.raises(Refused) as refused:
                await server.call("conversation/open", **fields)
            assert refused.value.code == "invalid_params"
        assert len((await server.call("conversation/list"))["conversations"]) == 1
        reply = await server.say("go", await opened(server, "command:gone"))
        assert reply["status"] == "failed"
        assert "no-such-agent" in reply["error"]["message"]


def test_variables_hold_for_a_run_from_the_command_line(tmp_path: Path) -> None:
    """S003-12, S003-17, S003-19, X-61: `exec --backend`; a value that is none is exit code 2 and named."""
    model = write_script(tmp_path, [])
    answers(tmp_path, "done")

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {**surroundings(tmp_path / "home"), **variables}
        return run_program("exec", "-m", model, *flags(), *words, cwd=tmp_path, env=env)

    first = run("--json", "--backend", "command:plain", "one")
    assert first.returncode == 0, first.stderr
    session = json.loads(first.stdout.splitlines()[0])["thread_id"]
    for mode, text in (("full", "two"), ("off", "three")):
        again = run("resume", session, text, EXECUTOR_HISTORY_MODE=mode)
        assert (again.returncode, again.stdout.strip()) == (0, "done"), again.stderr
    messages = [run["told"] for run in received_prompts(tmp_path)]
    assert messages[0] == "one"
    assert messages[1].startswith("## Conversation History")
    assert "User: one" in messages[1]
    assert messages[2] == "three"
    wrong = run("--backend", "command:plain", "four", EXECUTOR_HISTORY_MAX_CHARS="many")
    assert wrong.returncode == 2
    assert "EXECUTOR_HISTORY_MAX_CHARS" in wrong.stderr
    assert len(received_prompts(tmp_path)) == 3


async def test_a_caller_goes_on_when_the_agent_that_it_asked_broke_off(tmp_path: Path) -> None:
    """S004-18, X-14: one answer, {ok: false}, and nobody is said to have stopped anything."""
    ask = {"name": "conv_create", "arguments": {"user_instruction": "go", "backend": "command:lines"}}
    answers(tmp_path, [STARTED, SAID])
    async with serving(tmp_path, [{"tool_calls": [ask]}, "I go on."], *flags()) as server:
        reply = await server.say("delegate")
        assert (reply["status"], reply["last_assistant_message"]) == ("completed", "I go on.")
        (end,) = [event["data"] for event in server.events if event["type"] == "tool_call_end"]
        told_back = json.loads(end["output"])
        assert (end["success"], told_back["ok"], told_back["last_assistant_message"]) == (
            False,
            False,
            "half an answer",
        )
        assert "user" not in told_back["reason"]
