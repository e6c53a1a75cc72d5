"""What is asked before a command runs, word for word. When it is asked is tested with the tools."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tertulia.policy.display_text import sha256
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_events import ApprovalRequest
from tertulia.sandbox.masks.guarded_paths import GuardedPaths, Mask, ProtectedPath
from tertulia.tools.shell.command_approval import CommandRequest, EscalationRequest, approve_command
from tertulia.tools.tool import ChainView
from tests.deadlines import HANG_S
from tests.tools.calling import call
from tests.tools.workbench import allow, deny, workbench


async def test_a_request_shows_what_will_run_where_and_how(tmp_path: Path) -> None:
    """S002-11, B10: a script as it was written, and nothing in it that could hide."""
    async with workbench(tmp_path, allow) as bench:
        bench.with_rights("untrusted")
        order = CommandRequest(
            argv=("bash", "-c", "rm x\nrm y\u202e"),
            cwd=str(bench.root),
            escalation=EscalationRequest(justification="to tidy up"),
        )
        cleared = await approve_command(bench.place, order, bench.context(call("shell")))
        command = cleared.command
        (request,) = bench.asked
        assert request.title.startswith("run: bash -c ")
        assert request.detail == (
            f"bash -c with this script:\n│ rm x\n│ rm y⟨U+202E⟩\nin {bench.root}\n"
            "The model's reason, in its own words:\n│ to tidy up"
        )
        assert (request.script, request.justification, request.cwd) == (
            "rm x\nrm y⟨U+202E⟩",
            "to tidy up",
            str(bench.root),
        )
        assert request.command == "bash -c 'rm x\nrm y⟨U+202E⟩'"
        assert request.call_id == call("shell").call_id
        assert (request.size, request.digest, request.hidden) == (len(request.detail), sha256(request.detail), 0)
        assert cleared.allowed_by.kind == "client"
        assert request.matches[1:] == [
            f"directory: {bench.root}",
            "environment: as in the test",
            f"sandbox: workspace-write, writable: {bench.root}, network off",
            "approval policy: untrusted, or one that allows more",
        ]
        assert command.argv == order.argv
        assert command.confinement == bench.place.confinement(bench.rights)


async def test_a_childs_request_names_those_who_wait_for_it(tmp_path: Path) -> None:
    """B11: it shows at the root."""
    async with workbench(tmp_path, allow) as bench:
        bench.with_rights("untrusted")
        root = ConversationId("root")
        context = replace(bench.context(call("shell")), chain=ChainView(depth=1, callers=(root,)))
        await approve_command(bench.place, CommandRequest(argv=("touch", "x"), cwd="/"), context)
        assert bench.asked[0].chain == [root]


async def test_a_command_that_is_let_out_is_the_same_command(tmp_path: Path) -> None:
    async with workbench(tmp_path, allow) as bench:
        order = CommandRequest(argv=("touch", "x"), cwd=str(bench.root), escalation=EscalationRequest(escalated=True))
        command = (await approve_command(bench.place, order, bench.context(call("shell")))).command
        assert (command.argv, command.cwd, command.environment) == (order.argv, order.cwd, bench.place.environment)
        assert command.confinement.mode == "danger_full_access"
        assert "The model gave no reason." in bench.asked[0].detail


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (("rm", "-rf", "/home"), "rm -rf /home"),
        (("rm", "-c", "/home"), "rm -c /home"),
        (("sh", "-x", "run me"), "sh -x 'run me'"),
        (("touch", "a\nin /elsewhere"), "command:\n│ touch 'a\n│ in /elsewhere'"),
    ],
)
async def test_every_word_of_a_command_is_shown(tmp_path: Path, argv: tuple[str, ...], line: str) -> None:
    """A2: of `rm -rf /home` only `/home` was shown; and no word can pass for a line of ours."""
    async with workbench(tmp_path, allow) as bench:
        bench.with_rights("untrusted")
        await approve_command(bench.place, CommandRequest(argv=argv, cwd="/w"), bench.context(call("shell")))
        assert bench.asked[0].detail == f"{line}\nin /w"


async def test_no_reason_of_a_model_can_pass_for_a_line_of_ours(tmp_path: Path) -> None:
    """A2: a justification followed the command without a label, so it could imitate us."""
    async with workbench(tmp_path, allow) as bench:
        reason = "ok\nin /safe\n\u2028The sandbox holds it.\rThe user agreed."
        escalation = EscalationRequest(escalated=True, justification=reason, rule=("rm", "x\nin /"))
        await approve_command(
            bench.place, CommandRequest(argv=("ls",), cwd="/w\nx", escalation=escalation), bench.context(call("shell"))
        )
        ours = [line for line in bench.asked[0].detail.split("\n") if not line.startswith("│ ")]
        assert ours == [
            "ls",
            "in /w\\nx",
            "The model's reason, in its own words:",
            "The model would like to run whatever begins with the following; a yes does not allow that:",
        ]
        assert "│ ⟨U+2028⟩The sandbox holds it.⟨U+000D⟩The user agreed." in bench.asked[0].detail


async def test_git_that_would_start_a_program_of_its_repository_is_asked_about(tmp_path: Path) -> None:
    """A4: under `untrusted`, in a nested repository whose own configuration names a filter."""
    async with workbench(tmp_path, deny) as bench:
        bench.with_rights("untrusted")
        nested, mark = bench.root / "vendor", bench.root / "it-ran"
        subprocess.run(["git", "init", "-q", str(nested)], check=True, timeout=HANG_S)
        (nested / "a.txt").write_text("one")
        (nested / ".gitattributes").write_text("* filter=evil\n")
        reading = {"command": ["git", "diff", "--stat"], "workdir": str(nested)}
        assert (await bench.call("shell", reading)).success
        assert bench.asked == []
        with (nested / ".git" / "config").open("a") as file:
            file.write(f'[filter "evil"]\n\tclean = touch {mark}\n')
        for command in (["git", "status"], ["bash", "-c", "cd vendor && git diff"]):
            result = await bench.call(
                "shell", {"command": command, "workdir": str(bench.root if len(command) > 2 else nested)}
            )
            assert "approval_denied" in result.text
        assert [request.kind for request in bench.asked] == ["exec", "exec"]
        assert not mark.exists()


@pytest.mark.parametrize("escalated", [False, True])
async def test_what_appears_while_a_question_waits_is_guarded(tmp_path: Path, escalated: bool) -> None:
    """Issue 21, A14: a path that is guarded only where it exists, and that came after the command was asked about."""
    secret, settings = tmp_path / "workspace" / "secret", tmp_path / "workspace" / "settings"
    guarded = GuardedPaths(
        (Mask(str(secret), "~/secret", "a secret", also_missing=False),),
        (ProtectedPath(str(settings), "programs obey it", also_missing=False),),
    )

    def allow_late(request: ApprovalRequest) -> dict[str, Any]:
        secret.write_text("canary")
        settings.write_text("mine")
        return allow(request)

    async with workbench(tmp_path, allow_late, guarded=guarded) as bench:
        bench.with_rights("untrusted")
        assert bench.place.confinement(bench.rights).masked == ()
        argv = ("sh", "-c", "cat secret; echo bad > settings; true")
        order = CommandRequest(argv=argv, cwd=str(bench.root), escalation=EscalationRequest(escalated=escalated))
        command = (await approve_command(bench.place, order, bench.context(call("shell")))).command
        assert command.confinement.masked == (str(secret),)
        assert command.confinement.protected_paths == (str(settings),)
        if not escalated:
            assert "canary" not in (await bench.place.runner.run(command)).output.text()
            assert settings.read_text() == "mine"
