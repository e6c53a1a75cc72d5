"""`exec_command` and `write_stdin`, with real commands on real terminals."""

from __future__ import annotations

import asyncio
import re
import secrets
from pathlib import Path
from typing import Any

import pytest

from tertulia.protocol.events import BackgroundEvent
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_events import ExecCommandEnd
from tertulia.tools.shell.live_command import MAX_TERMINALS
from tertulia.tools.tool import Result
from tests.sandbox.confined import tagged
from tests.tools.patching import patch
from tests.tools.workbench import Workbench, allow, code, deny, workbench

SOON = {"yield_time_ms": 250}
LONG = {"yield_time_ms": 20_000}


def number(result: Result) -> int:
    """Of a command that still runs."""
    found = re.search(r"session ID (\d+)", result.text)
    assert found, result.text
    return int(found[1])


async def typed(bench: Workbench, session_id: int, chars: str = "", **more: Any) -> Result:
    return await bench.call("write_stdin", {"session_id": session_id, "chars": chars, **more})


async def test_a_command_that_ends_in_time_is_told_whole(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        result = await bench.call("exec_command", {"cmd": "echo hello; exit 3"})
        assert not result.success
        assert "Process exited with code 3" in result.text
        assert result.text.endswith("Output:\nhello\n")
        assert bench.kinds() == ["exec_command_begin", "exec_command_end"]
        assert len(bench.terminals) == 0


async def test_a_command_that_goes_on_can_be_typed_into_until_it_ends(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        first = await bench.call("exec_command", {"cmd": "read line; echo got $line", "tty": True, **SOON})
        assert first.success
        session_id = number(first)
        # The form that models know: the time first, whether or not it still runs.
        assert re.match(r"Wall time: 0\.\d seconds\nProcess running with session ID \d+\nOutput:\n", first.text)
        assert bench.kinds() == ["exec_command_begin"]
        last = await typed(bench, session_id, "salt\n", **LONG)
        assert last.success
        assert "got salt" in last.text
        assert "Process exited with code 0" in last.text
        assert bench.kinds() == ["exec_command_begin", "exec_command_end"]
        assert code(await typed(bench, session_id)) == "not_found"
        assert len(bench.terminals) == 0


async def test_looking_tells_what_came_since_and_nothing_twice(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        command = "echo one; while ! test -e go; do :; done; echo two; sleep 600"
        session_id = number(first := await bench.call("exec_command", {"cmd": command, **SOON}))
        seen = first.text
        while not seen.endswith("Output:\none\n"):
            # On a busy machine the shell may not have come so far.
            assert seen.endswith("Output:\n")
            seen = (await typed(bench, session_id, **SOON)).text
        assert (await typed(bench, session_id, **SOON)).text.endswith("Output:\n")
        (bench.root / "go").touch()
        seen = ""
        while "two" not in seen:
            seen = (await typed(bench, session_id, **SOON)).text
        assert "one" not in seen


async def test_what_has_no_terminal_cannot_be_typed_into_but_can_be_ended(tmp_path: Path) -> None:
    tag = f"tag{secrets.token_hex(6)}"
    async with workbench(tmp_path) as bench:
        session_id = number(await bench.call("exec_command", {"cmd": f"sleep 600; : {tag}", **SOON}))
        assert code(await typed(bench, session_id, "x\n")) == "invalid_params"
        assert tagged(tag)
        ended = await typed(bench, session_id, "\x03")
        assert "Process exited with code 137" in ended.text
        assert tagged(tag) == []


async def test_ctrl_c_reaches_a_program_on_its_terminal(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        command = "trap 'echo caught; exit 9' INT; echo listening; while :; do sleep 0.01; done"
        begun = await bench.call("exec_command", {"cmd": command, "tty": True, **SOON})
        session_id, seen = number(begun), begun.text
        while "listening" not in seen:
            seen = (await typed(bench, session_id, **SOON)).text
        ended = await typed(bench, session_id, "\x03", **LONG)
        assert "caught" in ended.text
        assert "code 9" in ended.text


async def test_a_terminal_is_the_conversations_own(tmp_path: Path) -> None:
    """S002-13, B3"""
    async with workbench(tmp_path) as bench:
        session_id = number(await bench.call("exec_command", {"cmd": "cat", "tty": True, **SOON}))
        foreign = await bench.call("write_stdin", {"session_id": session_id, "chars": "x"}, conversation="another")
        assert code(foreign) == "not_found"
        assert (await typed(bench, session_id, **SOON)).success


async def test_what_was_left_running_ends_with_its_conversation(tmp_path: Path) -> None:
    """H3: whatever it has started, and its end is told."""
    tag = f"tag{secrets.token_hex(6)}"
    async with workbench(tmp_path) as bench:
        command = {"cmd": f"trap '' TERM HUP; setsid sleep 600 {tag} & sleep 600; : {tag}", **SOON}
        await bench.call("exec_command", command)
        running = number(await bench.call("exec_command", {"cmd": "sleep 600", **SOON}, conversation="another"))
        assert tagged(tag)
        await bench.terminals.forget(ConversationId("conversation"))
        assert tagged(tag) == []
        # Only ends of commands: on a busy machine one more piece of output came once, perhaps a word of the shell.
        (conversation,) = [of for of, event in bench.told if isinstance(event, ExecCommandEnd)]
        assert conversation == "conversation"
        assert bench.terminals.find(ConversationId("another"), running).running.finished is None


async def test_an_interrupted_call_takes_its_command_along(tmp_path: Path) -> None:
    tag = f"tag{secrets.token_hex(6)}"
    async with workbench(tmp_path) as bench:
        call = asyncio.create_task(bench.call("exec_command", {"cmd": f"sleep 600; : {tag}", **LONG}))
        await bench.until("exec_command_begin")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert tagged(tag) == []
        assert bench.kinds() == ["exec_command_begin", "exec_command_end"]
        assert len(bench.terminals) == 0


async def test_there_is_a_most(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        numbers = await asyncio.gather(
            *(bench.call("exec_command", {"cmd": "sleep 600", **SOON}) for _ in range(MAX_TERMINALS))
        )
        began = len(bench.events)
        assert code(await bench.call("exec_command", {"cmd": "true"})) == "limit"
        assert len(bench.events) == began
        await typed(bench, number(numbers[0]), "\x03")
        assert (await bench.call("exec_command", {"cmd": "true"})).success


async def test_typing_is_asked_for_like_a_command(tmp_path: Path) -> None:
    """B1: what was allowed was the command, not what it is told later."""
    async with workbench(tmp_path, allow) as bench:
        bench.with_rights("untrusted")
        session_id = number(await bench.call("exec_command", {"cmd": "sh", "tty": True, **SOON}))
        bench.answer = deny
        assert code(await typed(bench, session_id, "touch made\n")) == "approval_denied"
        assert [request.kind for request in bench.asked] == ["exec", "exec"]
        assert "touch made" in bench.asked[1].detail
        assert (await typed(bench, session_id, **SOON)).success
        assert not (bench.root / "made").exists()
        assert len(bench.asked) == 2


async def test_typing_by_a_grant_says_which(tmp_path: Path) -> None:
    """A1: calls that ran by a grant say which, also this one."""
    async with workbench(tmp_path, lambda request: {"decision": "allow", "scope": "session"}) as bench:
        bench.with_rights("untrusted")
        session_id = number(await bench.call("exec_command", {"cmd": "sh", "tty": True, **SOON}))
        for _ in range(2):
            assert (await typed(bench, session_id, "echo hello\n", **SOON)).success
        assert len(bench.asked) == 2
        messages = [event.message for event in bench.events if isinstance(event, BackgroundEvent)]
        assert messages == [
            f"typed into a command that runs, as allowed by the grant {bench.approvals.grants()[1].grant_id}"
        ]


async def test_typing_into_a_command_outside_the_sandbox_is_asked_each_time(tmp_path: Path) -> None:
    async with workbench(tmp_path, allow) as bench:
        escalated = {"sandbox_permissions": "require_escalated", "justification": "x"}
        session_id = number(await bench.call("exec_command", {"cmd": "sh", "tty": True, **SOON, **escalated}))
        bench.answer = deny
        assert code(await typed(bench, session_id, f"touch {bench.outside}/made\n")) == "approval_denied"
        assert [request.kind for request in bench.asked] == ["escalation", "escalation"]
        assert not (bench.outside / "made").exists()


async def test_a_terminal_with_more_rights_is_no_way_around_a_narrower_chain(tmp_path: Path) -> None:
    """B11: the strictest of the chain at the moment of the call counts."""
    async with workbench(tmp_path) as bench:
        session_id = number(await bench.call("exec_command", {"cmd": "sh", "tty": True, **SOON}))
        bench.with_rights("on-request", sandbox="read_only")
        assert code(await typed(bench, session_id, "touch made\n")) == "no_approver"
        assert not (bench.root / "made").exists()
        bench.with_rights("on-request")
        await typed(bench, session_id, "touch made; exit\n", **LONG)
        assert (bench.root / "made").exists()


async def test_after_a_failure_it_is_asked_for_outside(tmp_path: Path) -> None:
    async with workbench(tmp_path, allow) as bench:
        bench.with_rights("on-failure")
        assert (await bench.call("exec_command", {"cmd": f"touch {bench.outside}/made"})).success
        assert (bench.outside / "made").exists()
        assert [request.kind for request in bench.asked] == ["escalation"]


async def test_long_output_is_bounded_by_tokens(tmp_path: Path) -> None:
    """G3"""
    async with workbench(tmp_path) as bench:
        result = await bench.call("exec_command", {"cmd": "seq 1 1000", "max_output_tokens": 100})
        assert result.truncated
        assert len(result.text) < 600
        assert "Original token count: 973" in result.text


async def test_a_patch_is_applied_as_a_patch(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        text = patch("*** Add File: new", "+text")
        result = await bench.call("exec_command", {"cmd": f"apply_patch <<'EOF'\n{text}\nEOF\n"})
        assert result.text.startswith("Success.")
        assert (bench.root / "new").read_text() == "text\n"
        assert code(await bench.call("exec_command", {"cmd": f"apply_patch <<'EOF'\n{text[:-5]}\nEOF\n"}))


async def test_escape_sequences_do_not_push_into_our_terminal(tmp_path: Path) -> None:
    """A22: TIOCSTI is refused inside."""
    async with workbench(tmp_path) as bench:
        code = "import fcntl,termios; fcntl.ioctl(0, termios.TIOCSTI, b'x')"
        result = await bench.call("exec_command", {"cmd": f'python3 -I -S -c "{code}"', "tty": True})
        assert not result.success
        assert "Error" in result.text


@pytest.mark.parametrize("expected", [0, -5, 10**9])
async def test_a_wait_is_never_shorter_or_longer_than_it_may_be(tmp_path: Path, expected: int) -> None:
    async with workbench(tmp_path) as bench:
        assert (await bench.call("exec_command", {"cmd": "true", "yield_time_ms": expected})).success
