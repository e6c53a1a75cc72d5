"""What is refused, is refused before anything happens: no interrupt, no conversation, no event but the error output."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tertulia.scheduler import task_runner
from tertulia.testing import call, say
from tests.delegation.delegation_stage import Play, create, destroy, play, send
from tests.session.staging import Ask
from tests.tables import each_row

UNKNOWN = "7d0d1d4b-0000-4000-8000-000000000000"


async def refused(on: Play, name: str, arguments: Any) -> dict[str, Any]:
    """What the model reads; nothing else has changed."""
    before = [(c.id, c.info.message_count, c.info.status) for c in on.session.conversations()]
    own = on.root.info.message_count
    on.mark()
    on.write(say("", call(name, arguments, "c1")), say("so be it"))
    assert (await on.root.message("go")).text == "so be it"
    answer = on.heard()[-1]
    assert on.score() == [
        "A task_started user",
        "A user_message",
        "A token_count",
        f"A tool_call_begin c1 {name}",
        f"A tool_call_end c1 {answer['code']}",
        "A token_count",
        "A agent_message 'so be it'",
        "A task_complete completed 'so be it'",
    ]
    after = [(c.id, c.info.message_count, c.info.status) for c in on.session.conversations()]
    assert after[1:] == before[1:]
    assert on.root.info.message_count == own + 2
    assert set(answer) == {"ok", "code", "reason"}
    on.check_idle()
    return answer


@pytest.mark.parametrize("doing", ["send", "destroy"])
async def test_an_ancestor_that_waits_is_neither_sent_to_nor_destroyed(doing: str) -> None:
    """X-10, X-11: a waiting ancestor answers `awaiting_result`; nothing happens to it, and the chain goes on."""
    async with play() as on:
        a, b = await on.session.open(), await on.session.open()
        on.write(say("", send(b)), say("", send(a, "c2") if doing == "send" else destroy(a, "c2")), say("B"), say("A"))
        reply = await a.message("go")
        assert (reply.status, reply.text) == ("completed", "A")
        assert on.heard(b) == [
            {"ok": False, "code": "awaiting_result", "reason": "conversation is awaiting a tool result"}
        ]
        assert on.heard(a)[0]["last_assistant_message"] == "B"
        assert len(on.ids()) == 3


@each_row(
    "arguments",
    [
        {},
        {"text": ""},
        {"items": []},
        {"items": [{"type": "text", "text": ""}]},
        {"items": [{"type": "sound", "url": "x"}]},
        {"items": [{"text": "no type"}]},
        {"items": ["text"]},
        {"items": [{"type": "image", "image_url": "ftp://x/y.png"}]},
        {"items": [{"type": "local_image", "path": "nowhere.png"}]},
        {"text": 5},
        {"text": "hi", "colour": "red"},
    ],
)
async def test_a_message_that_says_nothing_or_nonsense_is_not_sent(arguments: dict[str, Any]) -> None:
    """S004-30"""
    async with play() as on:
        b = await on.session.open()
        assert (await refused(on, "conv_send", {"conversation_id": b.id, **arguments}))["code"] == "invalid_params"


@each_row("arguments", ["{not json", "[]", '{"conversation_id": 5}', '{"conversation_id": "\\ud800"}'])
@pytest.mark.parametrize("tool", ["conv_send", "conv_history", "conv_destroy"])
async def test_arguments_that_are_not_what_the_schema_says_are_refused(tool: str, arguments: str) -> None:
    async with play() as on:
        assert (await refused(on, tool, arguments))["code"] == "invalid_params"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace, and beside it what it must not be left for."""
    inside = tmp_path / "work"
    (inside / "docs").mkdir(parents=True)
    (tmp_path / "secret.md").write_text("outside")
    (inside / "huge.md").write_bytes(b"x" * 300_000)
    (inside / "zero.md").write_bytes(b"text\0text")
    (inside / "latin.md").write_bytes(b"caf\xe9")
    (inside / "empty.md").write_text("  \n")
    (inside / "link.md").symlink_to(tmp_path / "secret.md")
    (inside / "out").symlink_to(tmp_path)
    (inside / "loop.md").symlink_to(inside / "loop.md")
    (inside / "docs" / "role.md").write_text("You are the role.")
    (inside / "alias.md").symlink_to(inside / "docs" / "role.md")
    os.mkfifo(inside / "pipe.md")
    return inside


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("nowhere.md", "cannot be read"),
        ("docs", "not a file"),
        (".", "not inside"),
        ("huge.md", "larger than"),
        ("zero.md", "zero byte"),
        ("latin.md", "UTF-8"),
        ("empty.md", "empty"),
        ("pipe.md", "not a file"),
        ("../secret.md", "not inside"),
        ("docs/../../secret.md", "not inside"),
        ("link.md", "not inside"),
        ("out/secret.md", "not inside"),
        ("/etc/passwd", "not inside"),
        ("/dev/zero", "not inside"),
        ("loop.md", "cannot be read"),
        ("docs/role.md/deeper", "cannot be read"),
        ("nul\0byte", "not a path"),
        ("x" * 5_000, "cannot be read"),
    ],
)
async def test_a_file_that_is_no_text_of_the_workspace_is_refused(workspace: Path, path: str, says: str) -> None:
    """S004-29: unreadable, huge, binary or elsewhere: a short text, no interrupt, nothing left behind."""
    async with play(cwd=str(workspace)) as on:
        answer = await refused(on, "conv_create", {"user_instruction": "x", "base_instruction_file": path})
        assert answer["code"] == "invalid_params"
        assert says in answer["reason"]
        assert len(answer["reason"]) < 500


@pytest.mark.parametrize("path", ["docs/role.md", "./docs/../docs/role.md", "alias.md", "absolute"])
async def test_a_file_of_the_workspace_is_the_childs_instructions(workspace: Path, path: str) -> None:
    """S004-03: relative to the turn's directory; a link that stays inside is as good."""
    text = str(workspace / "docs" / "role.md") if path == "absolute" else path
    async with play(say("", create(base_instruction_file=text)), "B", "A", cwd=str(workspace)) as on:
        await on.root.message("go")
        assert on.model.requests[1].instructions.startswith("You are the role.")


@pytest.mark.parametrize("tool", ["conv_create", "conv_send"])
async def test_a_foreign_backend_is_a_target_only(tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """DESIGN, Scheduling: conv_create and conv_send from inside one are refused, conv_list and conv_history work."""
    # Our own loop plays the other agent.
    monkeypatch.setattr(task_runner, "NATIVE", "codex")
    async with play() as on:
        b = await on.session.open()
        conversation = on.parts.conversations.root
        conversation.terms = replace(conversation.terms, backend="codex")
        arguments = {"conversation_id": b.id, "text": "x"} if tool == "conv_send" else {"user_instruction": "x"}
        assert (await refused(on, tool, arguments))["code"] == "unsupported_by_backend"
        on.write(say("", call("conv_list", {}, "l1"), call("conv_history", {"conversation_id": b.id}, "h1")), "ok")
        await on.root.message("look around")
        assert [answer["ok"] for answer in on.heard()[-2:]] == [True, True]


async def test_a_handoff_of_any_tool_from_inside_a_foreign_backend_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check stands where the work is made: no tool can go round it."""
    monkeypatch.setattr(task_runner, "NATIVE", "codex")
    async with play(tools=[Ask()]) as on:
        b = await on.session.open()
        conversation = on.parts.conversations.root
        conversation.terms = replace(conversation.terms, backend="codex")
        assert (await refused(on, "ask", {"to": b.id}))["code"] == "unsupported_by_backend"


async def test_only_a_script_may_name_a_script(tmp_path: Path) -> None:
    """A model could have any file of the machine read as a script by naming it."""
    script = tmp_path / "child.json"
    script.write_text('["from the script"]')
    async with play() as on:
        on.write(say("", create(model=f"scripted/{script}")), "A")
        await on.root.message("go")
        assert on.heard()[0]["last_assistant_message"] == "from the script"
        on.model.name = "provider/model"
        answer = await refused(on, "conv_create", {"user_instruction": "x", "model": f"scripted/{script}"})
        assert answer["code"] == "invalid_params"
