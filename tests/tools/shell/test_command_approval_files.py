"""A3: what a yes for longer covers outside the sandbox: the words, and the content of the files that they name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import force_setattr

from tertulia.protocol.tool_events import ApprovalRequest, ExecCommandBegin
from tests.tools.workbench import Workbench, code, deny, workbench

OUT = {"sandbox_permissions": "require_escalated", "justification": "the test wants it"}


def for_the_session(request: ApprovalRequest) -> dict[str, Any]:
    return {"decision": "allow", "scope": "session"}


def write(bench: Workbench, name: str, word: str) -> None:
    """A script that leaves this word outside of the workspace."""
    (bench.root / name).write_text(f"#!/bin/sh\necho {word} >> {bench.outside}/ran\n")
    (bench.root / name).chmod(0o755)


def ran(bench: Workbench) -> list[str]:
    return (bench.outside / "ran").read_text().split()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("shell", {"command": ["bash", "run.sh"], **OUT}),
        ("shell", {"command": ["./run.sh"], **OUT}),
        ("local_shell", {"command": ["sh", "-c", "./run.sh"], "with_escalated_permissions": True}),
        ("exec_command", {"cmd": "bash run.sh", **OUT}),
        ("exec_command", {"cmd": "source ./run.sh", **OUT}),
    ],
)
async def test_a_script_that_was_rewritten_is_asked_about_again(
    tmp_path: Path, tool: str, arguments: dict[str, Any]
) -> None:
    """A3: and the request says which file changed."""
    async with workbench(tmp_path, for_the_session) as bench:
        write(bench, "run.sh", "one")
        for _ in range(2):
            assert (await bench.call(tool, arguments)).success
        (first,) = bench.asked
        assert first.scopes == ["once", "conversation", "session"]
        assert any(line.startswith(f"file: {bench.root}/run.sh, sha256") for line in first.matches)
        begun = [event.allowed_by for event in bench.events if isinstance(event, ExecCommandBegin)]
        assert [decider.kind for decider in begun if decider] == ["client", "grant"]

        write(bench, "run.sh", "evil")
        bench.answer = deny
        assert code(await bench.call(tool, arguments)) == "approval_denied"
        again = bench.asked[1]
        assert again.changed == (f"{bench.root}/run.sh",)
        assert again.detail.startswith(f"CHANGED since this was last allowed for longer (1):\n│ {bench.root}/run.sh\n")
        assert ran(bench) == ["one", "one"]

        # What was allowed is the content: with it the same words are allowed again.
        write(bench, "run.sh", "one")
        assert (await bench.call(tool, arguments)).success
        assert len(bench.asked) == 2


async def test_where_nobody_can_know_what_would_run_a_yes_holds_once(tmp_path: Path) -> None:
    """A3"""
    async with workbench(tmp_path, for_the_session) as bench:
        write(bench, "run.sh", "one")
        for _ in range(2):
            assert (await bench.shell("bash", "-c", "eval ./run.sh", **OUT)).success
        assert [request.scopes for request in bench.asked] == [["once"], ["once"]]
        assert "a yes holds once" in bench.asked[0].detail
        assert not bench.approvals.grants()


async def test_without_any_sandbox_a_grant_is_bound_to_the_files_as_well(tmp_path: Path) -> None:
    """A3: full access is outside of the sandbox too; a command in one is bound by its words."""
    async with workbench(tmp_path, for_the_session) as bench:
        for mode, questions in (("danger_full_access", 2), ("workspace_write", 1)):
            bench.asked.clear()
            bench.with_rights("untrusted", sandbox=mode)
            for text in ("true\n", "true # and more\n"):
                (bench.root / "run.sh").write_text(text)
                assert (await bench.shell("bash", "run.sh")).success
            assert len(bench.asked) == questions, mode


async def test_a_file_that_changes_while_a_person_thinks_is_asked_about_again(tmp_path: Path) -> None:
    """A3: what runs is what was there when the question was read."""
    async with workbench(tmp_path) as bench:
        write(bench, "run.sh", "one")

        def slowly(request: ApprovalRequest) -> dict[str, Any]:
            write(bench, "run.sh", f"evil{len(bench.asked)}")
            return {"decision": "allow", "scope": "session" if len(bench.asked) == 1 else "once"}

        bench.answer = slowly
        with bench.approvals.attended():
            refused = await bench.shell("bash", "run.sh", **OUT)
        assert "changed each time it was allowed" in refused.text
        assert [request.changed for request in bench.asked] == [(), *[(f"{bench.root}/run.sh",)] * 2]
        assert not (bench.outside / "ran").exists()


async def test_while_another_command_writes_beside_it_no_grant_counts(tmp_path: Path) -> None:
    """A3: it could put another file in place between our look and the start."""
    async with workbench(tmp_path, for_the_session) as bench:
        write(bench, "run.sh", "one")
        assert (await bench.shell("bash", "run.sh", **OUT)).success
        beside = await bench.call("exec_command", {"cmd": "sleep 60", "yield_time_ms": 250})
        assert "session ID 1" in beside.text
        assert (await bench.shell("bash", "run.sh", **OUT)).success
        assert bench.asked[1].scopes == ["once"]
        assert bench.asked[1].changed == ()
        await bench.terminals.close()
        assert (await bench.shell("bash", "run.sh", **OUT)).success
        assert len(bench.asked) == 2


async def test_a_command_that_starts_beside_it_at_the_last_moment_is_seen(tmp_path: Path) -> None:
    """A3: the runner is asked again after the grant was found."""
    async with workbench(tmp_path, for_the_session) as bench:
        write(bench, "run.sh", "one")
        assert (await bench.shell("bash", "run.sh", **OUT)).success
        runner = bench.place.runner
        answers = iter([False, True])

        class Busy:
            def __getattr__(self, name: str) -> Any:
                return next(answers, True) if name == "is_writing" else getattr(runner, name)

        force_setattr(bench.place, "runner", Busy())
        assert (await bench.shell("bash", "run.sh", **OUT)).success
        assert [request.scopes for request in bench.asked][1:] == [["once"]]


async def test_typing_into_a_command_outside_is_allowed_once_at_a_time(tmp_path: Path) -> None:
    """A3: what a shell makes of what is typed nobody can tell."""
    async with workbench(tmp_path, for_the_session) as bench:
        await bench.call("exec_command", {"cmd": "cat", "tty": True, "yield_time_ms": 250, **OUT})
        await bench.call("write_stdin", {"session_id": 1, "chars": "bash run.sh\n", "yield_time_ms": 250})
        assert bench.asked[-1].title.startswith("type into")
        assert bench.asked[-1].scopes == ["once"]
