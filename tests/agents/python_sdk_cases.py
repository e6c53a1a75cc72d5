"""What the official Codex SDK for Python promises its users, case by case; run with that SDK on the path.

Prints the name of each case that holds, and ends at the first that does not.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from openai_codex import (
    ApprovalMode,
    AsyncCodex,
    Codex,
    CodexConfig,
    ImageInput,
    LocalImageInput,
    SkillInput,
    TextInput,
)
from openai_codex._goal import _GoalNotificationStream
from openai_codex._run import _collect_turn_result
from openai_codex.generated.v2_all import ThreadResumeParams

COMMAND, CWD, HOME, URL = json.loads(sys.argv[1])
CONFIG = CodexConfig(launch_args_override=tuple(COMMAND), cwd=CWD, env={"HOME": HOME, "PATH": os.environ["PATH"]})
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def fetch(path: str) -> list[Any]:
    with urllib.request.urlopen(URL + path, timeout=60) as answer:
        return json.load(answer)


def wait_for_requests(count: int) -> None:
    while len(fetch("/seen")) < count:
        pass


def messages(items: Any) -> list[tuple[str, str | None]]:
    found = [item.root for item in items if item.root.type == "agentMessage"]
    return [(item.text, None if item.phase is None else item.phase.value) for item in found]


def user_parts(body: dict[str, Any]) -> list[dict[str, Any]]:
    content = [item["content"] for item in body["input"] if item.get("role") == "user"][-1]
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content


def policy(codex: Codex, id: str) -> str:
    state = codex._client.thread_resume(id, ThreadResumeParams(thread_id=id))
    return state.model_dump(by_alias=True, mode="json")["approvalPolicy"]


def run_and_usage(codex: Codex) -> None:
    result = codex.thread_start().run("hello", model="other-model")
    body = fetch("/seen")[-1]
    assert (body["model"], body["stream"], user_parts(body)[-1]["text"]) == ("other-model", True, "hello")
    assert messages(result.items) == [(result.final_response, None)]
    used = result.usage.model_dump(by_alias=True, mode="json")
    tokens = {"inputTokens": 11, "cachedInputTokens": 3, "outputTokens": 7, "reasoningOutputTokens": 5}
    for count in (used["last"], used["total"]):
        assert count | tokens | {"totalTokens": 18} == count, count


def last_message_of_unknown_phase(codex: Codex) -> None:
    result = codex.thread_start().run("case:unknown")
    assert (result.final_response, messages(result.items)) == ("Second", [("First", None), ("Second", None)])


def empty_last_message(codex: Codex) -> None:
    result = codex.thread_start().run("case:empty")
    assert (result.final_response, messages(result.items)) == ("", [("First", None), ("", None)])


def commentary_is_no_answer(codex: Codex) -> None:
    result = codex.thread_start().run("case:commentary")
    assert (result.final_response, messages(result.items)) == (None, [("On my way", "commentary")])


def phases_survive(codex: Codex) -> None:
    thread = codex.thread_start()
    result = thread.run("case:phases")
    wanted = [("On my way", "commentary"), ("There", "final_answer")]
    assert (result.final_response, messages(result.items)) == ("There", wanted)
    assert messages(thread.read(include_turns=True).thread.turns[0].items) == wanted
    thread.run("and now")
    phases = [item.get("phase") for item in fetch("/seen")[-1]["input"] if item.get("role") == "assistant"]
    assert phases == ["commentary", "final_answer"], "the provider gets them back"


def failed_turn_raises(codex: Codex) -> None:
    with pytest.raises(RuntimeError, match="it burst"):
        codex.thread_start().run("case:failure")


def stream_of_a_turn(codex: Codex) -> None:
    events = list(codex.thread_start().turn("case:pieces").stream())
    assert [e.payload.delta for e in events if e.method == "item/agentMessage/delta"] == ["he", "llo"]
    assert [e.payload.turn.status.value for e in events if e.method == "turn/completed"] == ["completed"]


def streams_side_by_side(codex: Codex) -> None:
    turns = [codex.thread_start().turn(f"case:pieces {number}") for number in range(2)]
    streams = [iter(turn.stream()) for turn in turns]
    ids = [{next(stream).payload.turn.id} for stream in streams]
    assert ids == [{turn.id} for turn in turns]
    assert all("turn/completed" in [event.method for event in stream] for stream in streams)


def steering(codex: Codex) -> None:
    before = len(fetch("/seen"))
    turn = codex.thread_start().turn("case:held")
    wait_for_requests(before + 1)
    assert turn.steer("case:steered").turn_id == turn.id
    fetch("/release")
    assert [text for text, _ in messages(turn.run().items)] == ["before", "after"]


def interrupting(codex: Codex) -> None:
    before, thread = len(fetch("/seen")), codex.thread_start()
    turn = thread.turn("case:held")
    wait_for_requests(before + 1)
    turn.interrupt()
    assert turn.run().status.value == "interrupted"
    fetch("/release")
    assert thread.run("go on").status.value == "completed"


def pictures(codex: Codex) -> None:
    file = Path(CWD) / "dot.png"
    file.write_bytes(PNG)
    address = "data:image/png;base64," + base64.b64encode(PNG).decode()
    codex.thread_start().run([TextInput("Look."), ImageInput(address), LocalImageInput(str(file))])
    parts = user_parts(fetch("/seen")[-1])
    assert [part["type"] for part in parts] == ["input_text", "input_image", "input_image"]
    assert {part["image_url"] for part in parts[1:]} == {address}


def skill_input(codex: Codex) -> None:
    file = Path(CWD) / ".agents" / "skills" / "demo" / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: demo\ndescription: for tests\n---\n\nUse cobalt.\n")
    codex.thread_start().run([TextInput("Use it."), SkillInput("demo", str(file.resolve()))])
    (text,) = [part["text"] for part in user_parts(fetch("/seen")[-1]) if part["text"].startswith("<skill>")]
    assert all(word in text for word in ("<name>demo</name>", f"<path>{file.resolve()}</path>", "Use cobalt."))


def approvals_hold_until_changed(codex: Codex) -> None:
    thread = codex.thread_start()
    assert policy(codex, thread.id) == "on-request"
    thread.run("hi", approval_mode=ApprovalMode.deny_all)
    assert policy(codex, thread.id) == "never"
    thread.run("hi")
    assert policy(codex, thread.id) == "never", "a turn that says nothing changes nothing"
    assert policy(codex, codex.thread_fork(thread.id).id) == "never"
    fork = codex.thread_fork(thread.id, approval_mode=ApprovalMode.auto_review)
    assert policy(codex, fork.id) == "on-request"
    assert policy(codex, thread.id) == "never"
    thread.run("hi", approval_mode=ApprovalMode.auto_review)
    assert policy(codex, thread.id) == "on-request"


def life_of_a_thread(codex: Codex) -> None:
    thread = codex.thread_start()
    thread.set_name("a name")
    thread.run("first")
    thread.run("second")
    read = thread.read(include_turns=True).thread
    assert read.name == "a name"
    texts = [[item.root.type for item in turn.items] for turn in read.turns]
    assert texts == [["userMessage", "agentMessage"]] * 2
    assert codex.thread_fork(thread.id).id != thread.id
    assert codex.thread_archive(thread.id).model_dump(by_alias=True, mode="json") == {}
    assert thread.id in [one.id for one in codex.thread_list(archived=True).data]
    assert thread.id not in [one.id for one in codex.thread_list(archived=False).data]
    assert codex.thread_unarchive(thread.id).id == codex.thread_resume(thread.id).id == thread.id


def compaction(codex: Codex) -> None:
    thread = codex.thread_start()
    for text in ("first " * 400, "second " * 400):
        thread.run(text)
    before = len(fetch("/seen"))
    assert thread.compact().model_dump(by_alias=True, mode="json") == {}
    wait_for_requests(before + 1)


def efforts_of_models(codex: Codex) -> None:
    efforts = {m.id: [e.reasoning_effort.value for e in m.supported_reasoning_efforts] for m in codex.models().data}
    assert efforts["mock/gpt-5.2"] == ["low", "medium", "high"]


def goal_over_several_turns(codex: Codex) -> None:
    client, thread = codex._client, codex.thread_start()
    state, turn_id = client.start_goal_operation(thread.id, "Cover it")
    stream = _GoalNotificationStream(
        state,
        state.next_notification,
        lambda: client.unregister_goal_operation(state),
        lambda: client.cancel_goal_operation(state),
    )
    result = _collect_turn_result(iter(list(stream)), turn_id=turn_id)
    assert (result.id, result.status.value, result.final_response) == (turn_id, "completed", "Goal reached.")
    assert [text for text, _ in messages(result.items)] == ["Half of it.", "Goal reached."]


def same_from_async(codex: Codex) -> None:
    async def scenario() -> None:
        async with AsyncCodex(config=CONFIG) as client:
            thread = await client.thread_start()
            result = await thread.run("case:commentary")
            assert (result.final_response, messages(result.items)) == (None, [("On my way", "commentary")])
            events = [event async for event in (await thread.turn("case:pieces")).stream()]
            assert [e.payload.delta for e in events if e.method == "item/agentMessage/delta"] == ["he", "llo"]

    asyncio.run(scenario())


CASES: list[Callable[[Codex], None]] = [
    run_and_usage,
    last_message_of_unknown_phase,
    empty_last_message,
    commentary_is_no_answer,
    phases_survive,
    failed_turn_raises,
    stream_of_a_turn,
    streams_side_by_side,
    steering,
    interrupting,
    pictures,
    skill_input,
    approvals_hold_until_changed,
    life_of_a_thread,
    compaction,
    efforts_of_models,
    goal_over_several_turns,
    same_from_async,
]


with Codex(CONFIG) as client:
    for case in CASES:
        case(client)
        sys.stdout.write(case.__name__ + "\n")
