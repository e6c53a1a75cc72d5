"""What the host does for an agent that works for a conversation. In whole sessions: see `test_acp_backends`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tertulia.conversation.executor_host import TaskExecutorHost, approval_kind
from tertulia.errors import HookRefusedError, InvalidParamsError, NotFoundError
from tertulia.executors.executor import PermissionQuestion
from tertulia.protocol.tool_events import ApprovalRequest
from tertulia.sandbox.runner import Confinement
from tests.session.staging import stage
from tests.tables import each_row


def question(doing: Any, *paths: str) -> PermissionQuestion:
    return PermissionQuestion(doing=doing, title="t", detail="d", words=("w",), paths=paths)


@each_row(
    ("mode", "doing", "paths", "kind"),
    [
        ("workspace_write", "execute", (), "escalation"),
        ("read_only", "execute", (), "escalation"),
        ("danger_full_access", "execute", (), "exec"),
        ("workspace_write", "edit", ("/work/a", "b"), "patch"),
        ("workspace_write", "edit", ("/work/a", "/etc/passwd"), "escalation"),
        ("workspace_write", "edit", ("/work/../etc/passwd",), "escalation"),
        ("workspace_write", "edit", ("/work/.git/hooks/x",), "escalation"),
        ("workspace_write", "edit", ("a\0b",), "escalation"),
        ("workspace_write", "delete", (), "escalation"),
        ("read_only", "edit", ("/work/a",), "escalation"),
        ("danger_full_access", "move", ("/anywhere",), "patch"),
        ("workspace_write", "fetch", (), "escalation"),
        ("danger_full_access", "other", (), "tool"),
        ("read_only", "read", ("/etc/passwd",), "tool"),
    ],
)
def test_what_a_yes_would_mean(mode: Any, doing: str, paths: tuple[str, ...], kind: str) -> None:
    """DESIGN, strictest wins: whatever may leave the agent's own sandbox is an escalation, which is always asked."""
    confinement = Confinement(mode=mode, writable_roots=("/work",))
    assert approval_kind(question(doing, *paths), confinement, "/work") == kind


def test_a_link_that_leads_away_is_no_file_inside(tmp_path: Path) -> None:
    """Links are followed before anything is allowed."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to(tmp_path)
    root = str((tmp_path / "work").resolve())
    confinement = Confinement(mode="workspace_write", writable_roots=(root,))
    assert approval_kind(question("edit", "link/x"), confinement, root) == "escalation"
    assert approval_kind(question("edit", "x"), confinement, root) == "patch"


async def test_a_file_is_a_text_at_an_absolute_path(tmp_path: Path) -> None:
    """Issue 11, 4: fs requests; what is refused names the path."""
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    async with stage(cwd=str(tmp_path)) as acting:
        host = TaskExecutorHost(_scope(acting), acting.parts.command_services.place, "acp:x", "run")
        with pytest.raises(InvalidParamsError, match="absolute"):
            await host.read("bytes")
        with pytest.raises(InvalidParamsError, match="UTF-8"):
            await host.read(str(tmp_path / "bytes"))
        with pytest.raises(NotFoundError):
            await host.read(str(tmp_path / "a" / "b"))
        await host.write(str(tmp_path / "c" / "d"), "x", "write-1")
        assert await host.read(str(tmp_path / "c" / "d")) == "x"


def _scope(acting: Any) -> Any:
    """As much of a task as it needs."""
    conversation = acting.parts.conversations.root

    class FakeScope:
        task_id = "t"
        around = acting.parts

        def __init__(self) -> None:
            self.conversation = conversation

        def rights(self) -> Any:
            return conversation.terms.rights

        def chain(self) -> Any:
            from tertulia.tools.tool import ChainView

            return ChainView()

        def publish(self, data: Any, storage: Any = None) -> None:
            acting.parts.bus.publish(data)

    return FakeScope()


@each_row(
    ("doing", "path", "kind"),
    [
        ("edit", "/home/ana/.bashrc", "escalation"),
        ("edit", "/home/ana/notes", "patch"),
        ("edit", "/home/ana/.config/tertulia/config.toml", "escalation"),
        ("read", "/home/ana/.config/tertulia/config.toml", "escalation"),
        ("read", ".config", "escalation"),
        ("search", "/home", "escalation"),
        ("read", "/home/ana/notes", "tool"),
    ],
)
def test_s1_what_is_guarded_from_commands_takes_a_yes_of_an_agent_too(doing: str, path: str, kind: str) -> None:
    """S1, S9: an agent that asks to read a mask, or to change what a shell runs, asks to leave the sandbox."""
    confinement = Confinement(
        mode="workspace_write",
        writable_roots=("/home/ana",),
        masked=("/home/ana/.config/tertulia",),
        protected_paths=("/home/ana/.bashrc",),
    )
    assert approval_kind(question(doing, path), confinement, "/home/ana") == kind


async def test_s9_files_through_us_obey_the_masks(tmp_path: Path) -> None:
    """S1, S9: neither read nor written, and the refusal names the mask; nothing changes."""
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "id").write_text("canary")
    async with stage(cwd=str(tmp_path), masks={"add": [str(tmp_path / "keys")]}) as acting:
        host = TaskExecutorHost(_scope(acting), acting.parts.command_services.place, "acp:x", "run")
        with pytest.raises(InvalidParamsError, match=r"masked by the setting masks\.add"):
            await host.read(str(tmp_path / "keys" / "id"))
        with pytest.raises(InvalidParamsError, match=r"masked by the setting masks\.add"):
            await host.write(str(tmp_path / "keys" / "new"), "x", "write-1")
        with pytest.raises(InvalidParamsError, match="would not last"):
            await host.write("/var/tmp/tertulia-s10/x", "x", "write-1")
    assert [path.name for path in (tmp_path / "keys").iterdir()] == ["id"]


async def test_a_command_that_an_agent_runs_itself_is_allowed_once_at_a_time(tmp_path: Path) -> None:
    """A3: what it would run, and when, is the agent's to say; a change of files may be allowed for longer."""
    async with stage(cwd=str(tmp_path), approval_policy="untrusted") as acting:
        place, events = acting.parts.command_services.place, list[Any]()
        scope = _scope(acting)

        def hear(event: Any) -> None:
            events.append(event)
            if isinstance(event, ApprovalRequest):
                asyncio.get_running_loop().call_soon(
                    lambda: place.approvals.resolve(event.approval_id, "allow", scope="session")
                )

        scope.publish = hear
        host = TaskExecutorHost(scope, place, "acp:x", "run")
        with place.approvals.attended():
            consents = [await host.permit(question(doing, "x")) for doing in ("execute", "execute", "edit", "edit")]
        assert [consent.lasting for consent in consents] == [False, False, True, True]
        scopes = [event.scopes for event in events if isinstance(event, ApprovalRequest)]
        assert scopes == [["once"], ["once"], ["once", "conversation", "session"]]


async def test_git_of_an_agent_is_never_known_to_be_safe(tmp_path: Path) -> None:
    """A4: it runs in an environment of the agent's own, where a repository's settings may start anything."""
    async with stage(cwd=str(tmp_path), approval_policy="untrusted", sandbox="danger-full-access") as acting:
        host = TaskExecutorHost(_scope(acting), acting.parts.command_services.place, "acp:x", "run")
        permission_questions = [
            PermissionQuestion(doing="execute", title="t", detail="", words=words)
            for words in (("ls",), ("git", "status"))
        ]
        assert [(await host.permit(question)).allowed for question in permission_questions] == [True, False]


async def test_what_an_agent_does_says_who_allowed_it(tmp_path: Path) -> None:
    """A1: a command and a change that it makes itself, a file and a terminal that it has from us."""
    async with stage(cwd=str(tmp_path), approval_policy="untrusted", sandbox="danger-full-access") as acting:
        place = acting.parts.command_services.place
        scope = _scope(acting)

        def answer(event: Any) -> None:
            if isinstance(event, ApprovalRequest):
                asyncio.get_running_loop().call_soon(lambda: place.approvals.resolve(event.approval_id, "allow"))

        scope.publish = answer
        host = TaskExecutorHost(scope, place, "acp:x", "run")
        with place.approvals.attended():
            for call, words in (("1", ("ls",)), ("2", ("touch", "x"))):
                question = PermissionQuestion(doing="execute", title="t", detail="", words=words, call=call)
                assert (await host.permit(question)).allowed
            await host.write(str(tmp_path / "new"), "x", "write-1")
            running = await host.start(("touch", str(tmp_path / "y")), None, {}, lambda _: None, "terminal-1")
            await running.wait()
        deciders = [host.allowed_by(call) for call in ("1", "2", "write-1", "terminal-1", "never")]
        assert [decider and decider.kind for decider in deciders] == ["policy", "client", "client", "client", None]


async def test_hooks_are_asked_about_what_an_agent_does_through_us(tmp_path: Path) -> None:
    """A refusal is a no to its question, and an error where we were to write or start something."""
    questions: list[tuple[str, str]] = []

    def refuse(question: dict[str, Any]) -> dict[str, str]:
        questions.append((question["source"], question["tool"]))
        return {"decision": "refuse", "reason": "not by an agent"}

    hooks = {"guard": {"on": ["before_tool"], "function": refuse}}
    async with stage(cwd=str(tmp_path), sandbox="danger-full-access", approval_policy="never", hooks=hooks) as acting:
        scope = _scope(acting)
        host = TaskExecutorHost(scope, acting.parts.command_services.place, "acp:x", "run")
        question = PermissionQuestion(doing="edit", title="t", detail="", words=("x",), paths=("a",))
        assert not (await host.permit(question)).allowed
        with pytest.raises(HookRefusedError, match="guard refuses this: not by an agent"):
            await host.write(str(tmp_path / "new"), "x", "write-1")
        with pytest.raises(HookRefusedError):
            await host.start(("touch", str(tmp_path / "new")), None, {}, lambda _: None, "terminal-1")
    assert questions == [("executor", "edit"), ("executor", "write"), ("executor", "execute")]
    assert not (tmp_path / "new").exists()
