"""The shell family in each of its forms, and view_image, as models know them."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.testing import ScriptedModel, call
from tests.contract.python_session import soon, start_session
from tests.sandbox.confined import need

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 3, 4)


@pytest.fixture(autouse=True)
def _sandboxed() -> None:
    need("bubblewrap")


async def outputs(folder: Path, *calls: Any, **settings: Any) -> list[Any]:
    """How each call ended, one after the other."""
    async with start_session(*calls, "Done.", cwd=str(folder), **settings) as session:
        ends = [event.data async for event in session.root.stream("go") if event.type == "tool_call_end"]
        await soon(session.close())
    return ends


def shell(*command: str, **arguments: Any) -> Any:
    return call("shell", {"command": list(command), **arguments})


def run(cmd: str, **arguments: Any) -> Any:
    return call("exec_command", {"cmd": cmd, **arguments})


def type_in(session_id: Any, **arguments: Any) -> Any:
    return call("write_stdin", {"session_id": session_id, **arguments})


FORMS: list[tuple[dict[str, Any], dict[str, set[str]]]] = [
    ({"shell_mode": "default"}, {"shell": {"command", "workdir", "timeout_ms"}}),
    (
        {"shell_mode": "with_request"},
        {"shell": {"command", "workdir", "timeout_ms", "sandbox_permissions", "justification"}},
    ),
    ({"shell_mode": "local"}, {"local_shell": {"command", "working_directory", "timeout_ms"}}),
    (
        {"shell_mode": "streamable"},
        {
            "exec_command": {"cmd", "workdir", "tty", "yield_time_ms", "max_output_tokens", "shell", "login"},
            "write_stdin": {"session_id", "chars", "yield_time_ms", "max_output_tokens"},
        },
    ),
    ({"shell_mode": "none"}, {}),
    # Derived: who may ask gets the form that can ask.
    ({"approval_policy": "on-request"}, {"shell": {"command", "sandbox_permissions", "justification"}}),
    ({"approval_policy": "never"}, {"shell": {"command", "workdir", "timeout_ms"}}),
]


@pytest.mark.parametrize(("settings", "wanted"), FORMS, ids=[str(*settings.values()) for settings, _ in FORMS])
async def test_each_form_of_shell_has_the_fields_that_models_know(
    settings: dict[str, Any], wanted: dict[str, set[str]]
) -> None:
    """S000-06, X-19: names and schemas."""
    model = ScriptedModel(["Hi."])
    async with tertulia.Session.start(tertulia.Settings(model=model, **settings)) as session:
        await soon(session.root.message("go"))
    family = {"shell", "local_shell", "exec_command", "write_stdin"}
    offered = {tool.name: json.loads(tool.schema) for tool in model.requests[0].request.tools if tool.name in family}
    assert list(offered) == list(wanted)
    for name, fields in wanted.items():
        assert fields <= set(offered[name]["properties"])
        assert offered[name]["additionalProperties"] is False
        assert ("sandbox_permissions" in offered[name]["properties"]) == (
            "sandbox_permissions" in fields or name == "exec_command"
        )


async def test_shell_runs_words_and_tells_how_it_ended(tmp_path: Path) -> None:
    """Fine print: a non-zero exit is success=false with the output, a timeout is an output."""
    calls = [
        shell("echo", "a  b; $HOME"), shell("sh", "-c", "echo out; echo err >&2; exit 3"), shell("pwd", workdir="/"),
        shell("sleep", "600", timeout_ms=200), shell("printf", "\\377x"), shell("no-such-program"),
        shell("sh", "-c", "head -c 300000 /dev/zero | tr '\\0' a"),
    ]  # fmt: skip
    words, failed, elsewhere, late, binary, missing, long = await outputs(tmp_path, *calls)
    assert (words["success"], words["output"].endswith("Output:\na  b; $HOME\n")) == (True, True)
    assert not failed["success"]
    assert "3" in failed["output"].partition("Output:")[0]
    assert "out\nerr\n" in failed["output"]
    assert elsewhere["output"].endswith("\n/\n")
    assert not late["success"]
    assert "timed out" in late["output"]
    assert binary["output"].endswith("\ufffdx")
    assert not missing["success"]
    assert (long["success"], long["truncated"]) == (True, True)
    assert "300,000" in long["output"]
    assert len(long["output"]) < 100_000


BAD: list[Any] = [
    {}, {"command": []}, {"command": "ls"}, {"command": [1]}, {"command": ["a\0b"]}, {"command": ["ls"], "x": 1},
    {"command": ["ls"], "timeout_ms": 0}, {"command": ["ls"], "workdir": "nowhere"}, "{broken",
]  # fmt: skip


async def test_wrong_arguments_are_an_answer_and_nothing_runs(tmp_path: Path) -> None:
    """C14: the model reads what was expected."""
    ends = await outputs(tmp_path, *(call("shell", bad) for bad in BAD))
    assert [json.loads(end["output"])["code"] for end in ends] == ["invalid_params"] * len(BAD)
    assert not any(end["success"] for end in ends)


async def test_a_command_can_be_left_running_and_typed_into(tmp_path: Path) -> None:
    """Issue 7, 3: exec_command and write_stdin with a terminal, sessions, yield times and poll."""
    calls = [
        run("echo hi; exit 7"), run("cat", tty=True, yield_time_ms=250), type_in(1, chars="typed\n", yield_time_ms=250),
        type_in(1, chars="\x04"), type_in(1), run("sleep 600", yield_time_ms=250), type_in(2, yield_time_ms=250),
        type_in(2, chars="\x03", yield_time_ms=2000), type_in(99), type_in("a"), run("seq 99999", max_output_tokens=50),
    ]  # fmt: skip
    ends = await outputs(tmp_path, *calls, shell_mode="streamable")
    ended, left, echoed, closed, gone, asleep, polled, stopped, unknown, wrong, long = [end["output"] for end in ends]
    assert "Process exited with code 7\nOutput:\nhi\n" in ended
    assert "Process running with session ID 1\n" in left
    assert echoed.count("typed") == 2
    assert "Process exited with code 0" in closed
    assert "Process running with session ID 2\n" in asleep
    assert "Process running with session ID 2\n" in polled
    assert "Process exited with code" in stopped
    assert [json.loads(text)["code"] for text in (gone, unknown, wrong)] == ["not_found", "not_found", "invalid_params"]
    assert "Original token count: " in long
    assert len(long) < 1000


async def test_local_shell_takes_what_the_provider_sends(tmp_path: Path) -> None:
    action = {"type": "exec", "command": ["pwd"], "working_directory": "/", "timeout_ms": 5000, "env": {}, "user": None}
    (end,) = await outputs(tmp_path, call("local_shell", action), shell_mode="local")
    assert (end["success"], end["output"].endswith("\n/\n")) == (True, True)


async def test_a_shell_of_another_form_is_not_there(tmp_path: Path) -> None:
    for mode, wrong in (("streamable", shell("ls")), ("default", run("ls")), ("none", shell("ls"))):
        (end,) = await outputs(tmp_path, wrong, shell_mode=mode)
        assert (end["success"], json.loads(end["output"])["ok"]) == (False, False)


async def test_a_picture_is_seen_and_what_is_none_is_refused(tmp_path: Path) -> None:
    """Issue 7, 3: bounded, and its size reported; nothing outside is read."""
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "text").write_text("hi")
    (tmp_path / "link.png").symlink_to("/etc/hostname")
    (tmp_path / "large.png").write_bytes(PNG + bytes(20_000_000))
    paths = ["a.png", "text", "link.png", "/etc/hostname", "../x", "none.png", ".", "large.png", "a\0b"]
    good, *bad = await outputs(tmp_path, *(call("view_image", {"path": path}) for path in paths))
    assert good["success"]
    assert "3 x 4" in good["output"]
    assert f"{len(PNG)} bytes" in good["output"]
    assert [json.loads(end["output"])["code"] for end in bad if end["success"] is False].count("not_found") == 1
    assert not any(end["success"] for end in bad)
