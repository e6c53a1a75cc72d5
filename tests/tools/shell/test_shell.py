"""The tool `shell`, with real commands in the real sandbox."""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tertulia.protocol.tool_events import ApprovalResolved, ExecCommandEnd, ExecCommandOutputDelta
from tertulia.tools.shell.live_command import MAX_TOLD
from tertulia.tools.shell.shell import PLAIN, WITH_REQUEST
from tests.sandbox.confined import DAEMON, tagged
from tests.tools.patching import patch, snapshot
from tests.tools.workbench import allow, code, deny, workbench

ESCALATED: dict[str, Any] = {"sandbox_permissions": "require_escalated", "justification": "to prove it"}


async def test_a_command_runs_and_everybody_hears_of_it(tmp_path: Path) -> None:
    """S002-14: one way to run commands, with events from the beginning to the end."""
    async with workbench(tmp_path) as bench:
        result = await bench.shell("bash", "-c", "echo out; echo err >&2")
        assert result.success
        assert result.text.startswith("Exit code: 0\n")
        assert result.text.endswith("Output:\nout\nerr\n")
        assert bench.kinds() == ["exec_command_begin", "exec_command_end"]
        begin, end = bench.events[0], bench.events[-1]
        assert (begin["command"], begin["cwd"]) == (["bash", "-c", "echo out; echo err >&2"], str(bench.root))
        assert (end["exit_code"], end["output"], end["truncated"]) == (0, "out\nerr\n", False)
        deltas = [event for event in bench.events if isinstance(event, ExecCommandOutputDelta)]
        assert "".join(delta.text for delta in deltas) == "out\nerr\n"
        assert [delta.offset for delta in deltas] == [sum(len(d.text) for d in deltas[:n]) for n in range(len(deltas))]


async def test_a_command_that_fails_is_no_success_and_shows_what_it_said(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        result = await bench.shell("bash", "-c", "echo so far; exit 7")
        assert not result.success
        assert "Exit code: 7" in result.text
        assert result.text.endswith("so far\n")


async def test_a_timeout_is_an_output_and_nothing_survives_it(tmp_path: Path) -> None:
    """H3: also what ignores every polite signal and has left its parents."""
    tag = f"tag{secrets.token_hex(6)}"
    async with workbench(tmp_path) as bench:
        result = await bench.shell("python3", "-I", "-S", "-c", DAEMON, tag, timeout_ms=1_000)
        assert not result.success
        assert "timed out after 1 s" in result.text
        assert result.text.endswith("up\n")
        assert bench.events[-1]["exit_code"] == 124
        assert tagged(tag) == []


async def test_a_cancelled_call_takes_its_command_along_and_its_end_is_told(tmp_path: Path) -> None:
    """S002-51: nothing of it is alive, and every begin has its end."""
    tag = f"tag{secrets.token_hex(6)}"
    async with workbench(tmp_path) as bench:
        running = asyncio.create_task(bench.shell("python3", "-I", "-S", "-c", DAEMON, tag))
        await bench.until("exec_command_output_delta")
        assert tagged(tag)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert tagged(tag) == []
        assert bench.kinds() == ["exec_command_begin", "exec_command_end"]


@pytest.mark.parametrize("workdir", ["..", "../outside", "{outside}", "/", "/etc", "{root}/../outside"])
async def test_where_a_command_starts_gives_it_no_right_to_write_there(tmp_path: Path, workdir: str) -> None:
    """A8"""
    async with workbench(tmp_path) as bench:
        place = workdir.format(outside=bench.outside, root=bench.root)
        result = await bench.shell("bash", "-c", "pwd; touch made", workdir=place)
        assert not result.success
        assert os.path.realpath(bench.root / place) in result.text
        assert "Read-only file system" in result.text
        assert not (bench.outside / "made").exists()
        assert (await bench.shell("touch", "made")).success
        assert (bench.root / "made").exists()


@pytest.mark.parametrize("workdir", ["nowhere", "/nonexistent", "a\0b"])
async def test_a_directory_that_is_none_is_refused(tmp_path: Path, workdir: str) -> None:
    async with workbench(tmp_path) as bench:
        assert code(await bench.shell("true", workdir=workdir)) == "invalid_params"
        assert bench.events == []


@pytest.mark.parametrize("command", [[], [""], ["a\0b"], ["true", "x" * 131_072], ["true", "ä" * 65_536]])
async def test_what_cannot_be_started_is_refused(tmp_path: Path, command: list[str]) -> None:
    async with workbench(tmp_path) as bench:
        assert code(await bench.shell(*command)) == "invalid_params"
        assert bench.events == []


async def test_a_word_may_be_as_long_as_the_kernel_allows_and_all_of_them_are_not_the_sandboxs_fault(
    tmp_path: Path,
) -> None:
    async with workbench(tmp_path) as bench:
        result = await bench.shell("sh", "-c", "printf %s ${#1}", "sh", "x" * 131_071)
        assert result.text.endswith("131071")
        many = await bench.shell("true", *["x" * 131_071] * 7)
        limit = os.sysconf("SC_ARG_MAX")
        assert many.success if limit > 1_000_000 else code(many) == "invalid_params"


async def test_a_program_that_is_not_there_is_a_failure_of_the_command(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        result = await bench.shell("no-such-program")
        assert not result.success
        assert "Exit code: 127" in result.text
        assert "No such file" in result.text
        bench.with_rights("on-request", sandbox="danger_full_access")
        for name in ("no-such-program", "/etc/hostname"):
            result = await bench.shell(name)
            assert not result.success
            assert "It could not be started: " in result.text


async def test_a_command_gets_the_environment_it_was_given_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A15"""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    async with workbench(tmp_path) as bench:
        text = (await bench.shell("env")).text
        assert "PATH=/usr/local/bin" in text
        assert "sk-secret" not in text
        assert "TERTULIA" not in text


async def test_much_output_is_cut_in_the_middle_and_its_true_size_is_told(tmp_path: Path) -> None:
    """G3: what is kept is bounded, and so is what is passed on as it comes."""
    async with workbench(tmp_path) as bench:
        result = await bench.shell("bash", "-c", "head -c 67108864 /dev/zero | tr '\\0' x; echo end")
        assert result.success
        assert result.truncated
        assert "67,108,868 bytes" in result.text
        assert result.text.endswith("end\n")
        assert len(result.text) < 70_000
        deltas = [event.text for event in bench.events if isinstance(event, ExecCommandOutputDelta)]
        assert MAX_TOLD <= sum(map(len, deltas)) < MAX_TOLD + 65_536


async def test_bytes_that_are_no_text_are_shown_as_such(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        result = await bench.shell("printf", r"a\377\000\303\244b")
        assert result.text.endswith("a\ufffd\ufffdäb")
        assert bench.events[-1]["output"] == "a\ufffd\ufffdäb"


# ── asking ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_with_untrusted_only_known_reads_run_unasked(tmp_path: Path) -> None:
    async with workbench(tmp_path, deny) as bench:
        bench.with_rights("untrusted")
        assert (await bench.shell("cat", "/etc/hostname")).success
        assert bench.asked == []
        refused = await bench.shell("touch", "made")
        assert code(refused) == "approval_denied"
        assert "not today" in refused.text
        assert [request.kind for request in bench.asked] == ["exec"]
        assert not (bench.root / "made").exists()


async def test_a_known_read_that_runs_unasked_finds_no_program_of_the_workspace(tmp_path: Path) -> None:
    """B1: the verdict holds in a safe environment only."""
    async with workbench(tmp_path, deny) as bench:
        bench.with_rights("untrusted")
        fake = bench.root / "cat"
        fake.write_text("#!/bin/sh\necho fooled\n")
        fake.chmod(0o755)
        bench.place = replace(bench.place, environment={"PATH": f"{bench.root}:/usr/bin:/bin"})
        bench.registry.get("shell")._place = bench.place  # type: ignore[union-attr]
        assert "fooled" not in (await bench.shell("cat", "/etc/hostname")).text
        bench.with_rights("on-request")
        assert "fooled" in (await bench.shell("cat", "/etc/hostname")).text


async def test_nobody_there_is_a_no_at_once(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        bench.with_rights("untrusted")
        assert code(await bench.shell("touch", "made")) == "no_approver"
        assert bench.events == []
        assert not (bench.root / "made").exists()


async def test_what_a_person_allows_runs_inside_the_sandbox(tmp_path: Path) -> None:
    async with workbench(tmp_path, allow) as bench:
        bench.with_rights("untrusted")
        assert (await bench.shell("touch", "made")).success
        result = await bench.shell("touch", str(bench.outside / "made"))
        assert not result.success
        assert not (bench.outside / "made").exists()
        assert (bench.root / "made").exists()


async def test_leaving_the_sandbox_is_asked_for_and_a_yes_lets_it_out(tmp_path: Path) -> None:
    async with workbench(tmp_path, allow) as bench:
        made = bench.outside / "made"
        assert (await bench.shell("touch", str(made), **ESCALATED)).success
        assert made.exists()
        (request,) = bench.asked
        assert request.kind == "escalation"
        assert "to prove it" in request.detail
        assert request.matches[0] == f"escalation: touch {made}"
        assert request.matches[3].startswith(
            "sandbox: none: outside the sandbox, instead of workspace-write, writable: "
        )


@pytest.mark.parametrize(
    ("policy", "answered", "expected"),
    [
        ("on-request", True, "approval_denied"),
        ("on-request", False, "no_approver"),
        ("never", True, "no_approver"),
        ({"auto_run": "trusted", "may_ask": False, "retry_outside_on_failure": False}, True, "no_approver"),
    ],
)
async def test_without_a_yes_nothing_leaves_the_sandbox(
    tmp_path: Path, policy: object, answered: bool, expected: str
) -> None:
    async with workbench(tmp_path, deny if answered else None) as bench:
        bench.with_rights(policy)
        made = bench.outside / "made"
        assert code(await bench.shell("touch", str(made), **ESCALATED)) == expected
        assert not made.exists()
        assert "exec_command_begin" not in bench.kinds()
        assert len(bench.asked) == (expected == "approval_denied")


async def test_after_a_failure_inside_the_same_command_is_asked_for_outside(tmp_path: Path) -> None:
    async with workbench(tmp_path, allow) as bench:
        bench.with_rights("on-failure")
        made = bench.outside / "made"
        assert (await bench.shell("touch", str(made))).success
        assert made.exists()
        (request,) = bench.asked
        assert request.kind == "escalation"
        assert "cannot touch" in request.detail
        ends = [event for event in bench.events if isinstance(event, ExecCommandEnd)]
        assert [end.exit_code for end in ends] == [1, 0]


@pytest.mark.parametrize("answer", [deny, None])
async def test_where_it_is_not_allowed_outside_the_failure_stands(tmp_path: Path, answer: Any) -> None:
    async with workbench(tmp_path, answer) as bench:
        bench.with_rights("on-failure")
        result = await bench.shell("touch", str(bench.outside / "made"))
        assert not result.success
        assert "cannot touch" in result.text
        assert not (bench.outside / "made").exists()


@pytest.mark.parametrize("policy", ["on-request", "never", "untrusted"])
async def test_no_other_policy_asks_after_a_failure(tmp_path: Path, policy: str) -> None:
    async with workbench(tmp_path, allow) as bench:
        bench.with_rights(policy)
        assert not (await bench.shell("grep", "nothing", "/etc/hostname")).success
        assert bench.asked == []


async def test_a_reader_that_fails_is_not_offered_more_rights(tmp_path: Path) -> None:
    async with workbench(tmp_path, allow) as bench:
        bench.with_rights("on-failure")
        assert not (await bench.shell("grep", "nothing", "/etc/hostname")).success
        assert bench.asked == []


async def test_a_grant_holds_for_exactly_what_was_shown(tmp_path: Path) -> None:
    """S002-12, S002-13, B3, B5: other words, another directory, another conversation are another request."""
    async with workbench(tmp_path, lambda _: {"decision": "allow", "scope": "conversation"}) as bench:
        bench.with_rights("untrusted")
        (bench.root / "sub").mkdir()
        await bench.shell("touch", "a")
        await bench.shell("touch", "a")
        assert len(bench.asked) == 1
        await bench.shell("touch", "b")
        await bench.shell("touch", "a", workdir="sub")
        await bench.call("shell", {"command": ["touch", "a"]}, conversation="another")
        bench.with_rights("untrusted", network=True)
        await bench.shell("touch", "a")
        assert len(bench.asked) == 5


async def test_waiting_for_a_person_costs_no_time_of_the_tool(tmp_path: Path) -> None:
    async with workbench(tmp_path, lambda _: None) as bench:
        bench.with_rights("untrusted")
        loop = asyncio.get_running_loop()
        asking = asyncio.create_task(bench.call("shell", {"command": ["touch", "made"]}, timeout_s=0.05))
        await bench.until("approval_request")
        patient = asyncio.Event()
        loop.call_later(0.1, patient.set)
        await patient.wait()
        bench.approvals.resolve(bench.asked[0].approval_id, "allow")
        assert (await asking).success


async def test_a_cancelled_call_withdraws_its_request(tmp_path: Path) -> None:
    async with workbench(tmp_path, lambda _: None) as bench:
        bench.with_rights("untrusted")
        asking = asyncio.create_task(bench.shell("touch", "made"))
        await bench.until("approval_request")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert isinstance(bench.events[-1], ApprovalResolved)
        assert (bench.events[-1].decision, bench.events[-1].reason) == ("deny", "interrupted")
        assert not (bench.root / "made").exists()


async def test_with_full_access_there_is_nothing_to_leave(tmp_path: Path) -> None:
    async with workbench(tmp_path, deny) as bench:
        bench.with_rights("on-request", sandbox="danger_full_access")
        assert (await bench.shell("touch", str(bench.outside / "made"), **ESCALATED)).success
        assert bench.asked == []


# ── patches ──────────────────────────────────────────────────────────────────────────────────────────────────

HEREDOC = f"apply_patch <<'EOF'\n{patch('*** Add File: new', '+text')}\nEOF\n"


async def test_a_patch_handed_to_a_shell_is_applied_as_a_patch(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        (bench.root / "sub").mkdir()
        result = await bench.shell("bash", "-c", f"cd sub && {HEREDOC}")
        assert result.text == "Success. Updated the following files:\nA new"
        assert (bench.root / "sub" / "new").read_text() == "text\n"
        assert bench.kinds() == ["patch_apply_begin", "patch_apply_end"]


async def test_a_patch_that_is_none_is_refused_before_anything_runs(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        before = snapshot(bench.root)
        text = patch("*** Add File: ../outside/new", "+text")
        assert code(await bench.shell("apply_patch", text)) == "invalid_params"
        assert (snapshot(bench.root), snapshot(bench.outside), bench.events) == (before, {}, [])


async def test_without_the_right_to_patch_it_is_a_command_like_any_other(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        bench.with_rights("on-request", include_apply_patch_tool=False)
        result = await bench.shell("bash", "-c", HEREDOC)
        assert not result.success
        assert "Exit code: 127" in result.text
        assert snapshot(bench.root) == {}


async def test_a_patch_is_asked_for_where_only_reads_are_trusted(tmp_path: Path) -> None:
    async with workbench(tmp_path, deny) as bench:
        bench.with_rights("untrusted")
        assert code(await bench.shell("bash", "-c", HEREDOC)) == "approval_denied"
        assert [request.kind for request in bench.asked] == ["patch"]
        assert snapshot(bench.root) == {}
        bench.answer = allow
        assert (await bench.shell("bash", "-c", HEREDOC)).success
        assert (bench.root / "new").read_text() == "text\n"


def test_its_two_forms_differ_in_what_may_be_asked_for() -> None:
    """S000-06, X-19"""
    assert PLAIN.name == WITH_REQUEST.name == "shell"
    assert "sandbox_permissions" not in PLAIN.schema
    assert "sandbox_permissions" in WITH_REQUEST.schema
