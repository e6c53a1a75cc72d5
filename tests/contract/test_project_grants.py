"""A yes for the project: offered where texts may be stored, kept by the user, counted by later sessions, taken back."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.contract.app_server import Server, serving, surroundings
from tests.contract.test_app_server_approvals import shell
from tests.forked import run_program
from tests.sandbox.confined import need


@pytest.fixture(autouse=True)
def _sandboxed() -> None:
    need("bubblewrap")


def workspace(tmp_path: Path) -> Path:
    """A project with a script that makes a file outside of it."""
    project = tmp_path / "w"
    project.mkdir(exist_ok=True)
    (project / "run.sh").write_text(f"touch {tmp_path}/made\n")
    return project


def escalated(*command: str) -> dict[str, Any]:
    return shell(command=list(command), sandbox_permissions="require_escalated", justification="it has to")


REPLIES = [escalated("bash", "run.sh"), "Done."]


async def ask(server: Server) -> tuple[Any, dict[str, Any]]:
    message = await server.ask("conversation/message", conversation_id="root", text="go")
    return message, (await server.event("approval_request"))["data"]


async def allow(server: Server, scope: str) -> dict[str, Any]:
    message, request = await ask(server)
    answer = await server.call("approval/resolve", approval_id=request["approval_id"], decision="allow", scope=scope)
    await server.answer(message)
    return answer


async def test_a_yes_for_the_project_counts_in_the_next_session_until_it_is_taken_back(tmp_path: Path) -> None:
    """Issue 19, 1: kept in the user's folder, never in the project; listed and revoked."""
    project = workspace(tmp_path)
    async with serving(tmp_path, REPLIES, "--cd", "w") as server:
        assert await allow(server, "project") == {"resolved": True, "scope": "project"}
        (grant,) = (await server.call("approval/grants"))["grants"]
        assert (grant["scope"], grant["kind"], grant["conversation_id"]) == ("project", "escalation", None)
        assert 29 * 86_400 < grant["expires_in_s"] <= 30 * 86_400
    assert sorted(path.name for path in project.iterdir()) == ["run.sh"]

    (tmp_path / "made").unlink()
    async with serving(tmp_path, REPLIES, "--cd", "w") as server:
        assert (await server.say("go"))["status"] == "completed"
        assert (await server.event("exec_command_begin"))["data"]["allowed_by"] == {
            "kind": "grant",
            "grant_id": grant["grant_id"],
        }
        assert (tmp_path / "made").exists()
        assert await server.call("approval/revoke", grant_id=grant["grant_id"]) == {"revoked": True}
        assert (await server.call("approval/grants"))["grants"] == []

    async with serving(tmp_path, REPLIES, "--cd", "w") as server:
        message, request = await ask(server)
        await server.call("approval/resolve", approval_id=request["approval_id"], decision="deny")
        await server.answer(message)


async def test_a_script_that_changed_since_is_asked_about_again_and_named(tmp_path: Path) -> None:
    """A3 holds for stored grants too."""
    project = workspace(tmp_path)
    async with serving(tmp_path, REPLIES, "--cd", "w") as server:
        await allow(server, "project")
    (project / "run.sh").write_text("rm -rf ~\n")
    async with serving(tmp_path, REPLIES, "--cd", "w") as server:
        message, request = await ask(server)
        assert request["changed"] == [str(project / "run.sh")]
        await server.call("approval/resolve", approval_id=request["approval_id"], decision="deny")
        await server.answer(message)


@pytest.mark.parametrize("policy", ["headers-only", "none", "ttl:60"])
async def test_where_the_words_may_not_be_stored_it_is_not_offered(tmp_path: Path, policy: str) -> None:
    workspace(tmp_path)
    async with serving(tmp_path, REPLIES, "--cd", "w", "--storage", policy) as server:
        message, request = await ask(server)
        assert request["scopes"] == ["once", "conversation", "session"]
        answer = await server.call(
            "approval/resolve", approval_id=request["approval_id"], decision="allow", scope="project"
        )
        assert answer["scope"] == "once"
        assert "not offered" in answer["narrowed"]
        await server.answer(message)
        assert (await server.call("approval/grants"))["grants"] == []
    assert not list(tmp_path.rglob("grants.json"))


async def test_zero_switches_it_off(tmp_path: Path) -> None:
    workspace(tmp_path)
    async with serving(tmp_path, REPLIES, "--cd", "w") as server:
        await allow(server, "project")
    async with serving(tmp_path, REPLIES, "--cd", "w", "-c", "project_grant_ttl_s=0") as server:
        message, request = await ask(server)
        assert request["scopes"] == ["once", "conversation", "session"]
        await server.call("approval/resolve", approval_id=request["approval_id"], decision="deny")
        await server.answer(message)


def grants(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_program(*arguments, cwd=tmp_path, env=surroundings(tmp_path / "home"))


async def test_the_program_lists_grants_and_takes_them_back(tmp_path: Path) -> None:
    workspace(tmp_path)
    empty = grants(tmp_path, "-C", "w", "grants")
    assert (empty.returncode, empty.stdout) == (
        0,
        f"Nothing is allowed for longer than a session in {tmp_path / 'w'}.\n",
    )
    async with serving(tmp_path, REPLIES, "--cd", "w") as server:
        await allow(server, "project")
    listed = grants(tmp_path, "-C", "w", "grants", "ls")
    assert "escalation: bash run.sh" in listed.stdout
    assert "holds 29 days more" in listed.stdout
    grant_id = next(word.strip(",") for word in listed.stdout.split() if word.startswith("project-"))
    elsewhere = grants(tmp_path, "grants")
    assert "1 grant of other projects" in elsewhere.stdout
    unknown = grants(tmp_path, "grants", "revoke", "project-0")
    assert unknown.returncode == 1
    assert "tertulia grants ls --all" in unknown.stderr
    assert grants(tmp_path, "grants", "revoke").returncode == 2
    taken = grants(tmp_path, "grants", "revoke", grant_id)
    assert (taken.returncode, taken.stdout) == (0, "1 grant taken back.\n")
    assert grants(tmp_path, "grants", "revoke", "--project", "w").stdout.startswith("0 grants of ")
