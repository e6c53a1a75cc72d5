"""Commands, patches and approvals from Python, by somebody who has only read the public page and means no good."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia import errors
from tertulia.testing import call
from tests.contract.python_session import becomes, soon, start_session
from tests.sandbox.confined import need

TOUCH = ["touch", "made"]
ESCALATED = {"sandbox_permissions": "require_escalated", "justification": "it has to be"}


@pytest.fixture(autouse=True)
def _sandboxed() -> None:
    need("bubblewrap")


def shell(*command: str, **arguments: Any) -> Any:
    return call("shell", {"command": list(command), **arguments})


def patch(body: str) -> Any:
    return call("apply_patch", {"input": f"*** Begin Patch\n{body}*** End Patch"})


class Person:
    """Follows the events, answers what is asked with the next of its answers, and remembers what it saw."""

    def __init__(self, session: tertulia.Session, answers: list[dict[str, Any]]) -> None:
        self.session = session
        self.answers = answers
        self.asked: list[tertulia.Event] = []
        self.outputs: list[tertulia.Event] = []

    async def follow(self, news: Any) -> None:
        async for event in news:
            if event.type == "tool_call_end":
                self.outputs.append(event)
            elif event.type == "approval_request":
                self.asked.append(event)
                answer = {"decision": "deny", **self.answers.pop(0)}
                await self.session.approvals.resolve(event.data["approval_id"], **answer)

    def codes(self) -> list[str]:
        """Of each output: ok, failed, or the code of its refusal."""
        return [_code(event.data["success"], event.data["output"]) for event in self.outputs]


def _code(success: bool, output: str) -> str:
    if success:
        return "ok"
    return json.loads(output)["code"] if output.startswith("{") else "failed"


@asynccontextmanager
async def attended(where: Path, *replies: Any, answers: tuple[str, ...] = (), **settings: Any) -> AsyncIterator[Person]:
    """A session in this directory, and a person with these answers; the session is over when the block is."""
    async with start_session(*replies, cwd=str(where), **settings) as session:
        person = Person(session, [{"decision": answer} for answer in answers])
        async with session.events(attend=True) as news, asyncio.TaskGroup() as group:
            following = group.create_task(person.follow(news))
            yield person
            await session.close()
            await soon(following)


async def done(person: Person, text: str = "go") -> tertulia.Reply:
    reply = await soon(person.session.root.message(text))
    assert reply.status == "completed"
    return reply


def living(tag: str) -> list[str]:
    """The processes of this machine whose command line has this word."""
    found: list[str] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            try:
                line = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if tag.encode() in line:
                found.append(folder.name)
    return found


@pytest.mark.parametrize(
    ("policy", "answers", "kinds", "codes", "made"),
    [
        ("untrusted", ("allow", "deny"), ["exec", "escalation"], ["ok", "ok", "approval_denied"], ["made"]),
        ("on_request", ("allow",), ["escalation"], ["ok", "ok", "ok"], ["made", "out"]),
        ("on_failure", ("allow",), ["escalation"], ["ok", "ok", "ok"], ["made", "out"]),
        ("never", (), [], ["ok", "ok", "no_approver"], ["made"]),
    ],
)
async def test_each_policy_asks_for_what_the_page_says(
    policy: str, answers: tuple[str, ...], kinds: list[str], codes: list[str], made: list[str], tmp_path: Path
) -> None:
    """Issue 7: untrusted reads run unasked, on_request and on_failure ask to leave, never asks nobody."""
    home = tmp_path / "w"
    home.mkdir()
    replies = [shell("ls"), shell(*TOUCH), shell("touch", str(tmp_path / "out"), **ESCALATED), "Done."]
    async with attended(home, *replies, answers=answers, approval_policy=policy) as person:
        await done(person)
    assert [event.data["kind"] for event in person.asked] == kinds
    assert person.codes() == codes
    assert sorted([*os.listdir(home), *(name for name in os.listdir(tmp_path) if name != "w")]) == made


@pytest.mark.parametrize("answer", ["allow", "deny"])
async def test_after_a_failure_inside_a_person_is_asked_and_a_no_lets_it_stand(answer: str, tmp_path: Path) -> None:
    home, outside = tmp_path / "w", tmp_path / "seen"
    home.mkdir()
    outside.write_text("x")
    # Below the temporary directory nothing but the workspace is seen inside.
    copy = shell("cp", str(outside), "copy")
    async with attended(home, copy, "Done.", answers=(answer,), approval_policy="on_failure") as person:
        await done(person)
    assert [event.data["kind"] for event in person.asked] == ["escalation"]
    assert (home / "copy").exists() == (answer == "allow")
    assert person.codes() == ["ok" if answer == "allow" else "failed"]


async def test_a_grant_holds_for_nothing_but_what_was_shown(tmp_path: Path) -> None:
    """B3, B5, B6: not elsewhere, with another word, in another conversation, outside, or by a second answer."""
    (tmp_path / "sub").mkdir()
    others = [shell(*TOUCH, workdir="sub"), shell(*TOUCH, "more"), shell(*TOUCH, **ESCALATED)]
    replies = [shell(*TOUCH), shell(*TOUCH), *others, "Done.", shell(*TOUCH), "Other."]
    async with attended(tmp_path, *replies, approval_policy="untrusted") as person:
        person.answers = [{"decision": "allow", "scope": "conversation"}, {}, {}, {}, {}]
        other = await person.session.open()
        await done(person)
        assert len(person.asked) == 4
        (grant,) = await person.session.approvals.grants()
        assert grant.matches == person.asked[0].data["matches"]
        assert grant.conversation_id == person.session.root.id
        await soon(other.message("go"))
        assert person.asked[4].conversation_id == other.id
        late = await person.session.approvals.resolve(person.asked[4].data["approval_id"], "allow", scope="session")
        assert not late
        assert await person.session.approvals.grants() == [grant]
        with pytest.raises(errors.NotFoundError):
            await person.session.approvals.resolve(grant.grant_id, "allow")
    assert person.codes() == ["ok", "ok", *["approval_denied"] * 4]
    assert sorted(os.listdir(tmp_path)) == ["made", "sub"]
    assert os.listdir(tmp_path / "sub") == []


async def test_a_sender_with_few_rights_gains_none_from_its_target(tmp_path: Path) -> None:
    """B11: conv_send from a read-only conversation to one that may write."""
    target = ""
    replies = [lambda _: call("conv_send", {"conversation_id": target, "text": "do"}), shell(*TOUCH), "Did.", "Done."]
    async with attended(tmp_path, *replies) as person:
        target = (await person.session.open()).id
        await person.session.root.set_context(sandbox="read-only")
        await done(person)
    assert person.codes()[0] == "failed"
    assert os.listdir(tmp_path) == []


async def test_a_profile_in_a_writable_home_is_not_run_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B1: `ls` only reads, a login shell that reads the agent's own profile first does not."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (".bash_profile", ".profile"):
        (tmp_path / name).write_text("touch made\n")
    settings = {"approval_policy": "untrusted", "allow_home_workspace": True}
    async with attended(tmp_path, shell("bash", "-lc", "ls"), "Done.", **settings) as person:
        await done(person)
    assert (person.asked, person.codes()) == ([], ["ok"])
    assert not (tmp_path / "made").exists()


async def test_a_command_sees_no_secrets_and_not_our_own_data(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A14, A15"""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TERTULIA_HOME", str(home / "ours"))
    for name, value in (("MY_API_KEY", "canary"), ("GITHUB_TOKEN", "canary"), ("UNRELATED", "canary")):
        monkeypatch.setenv(name, value)
    for name in (".ssh/id", ".aws/credentials", ".kube/config", ".claude/x", "ours/x", ".netrc", ".codex/auth.json"):
        path = home / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("canary")
    everything = f"env; find {home} -type f -exec cat {{}} +; echo end"
    async with attended(tmp_path, shell("sh", "-c", everything), "Done.") as person:
        await done(person)
    (output,) = person.outputs
    assert "end" in output.data["output"]
    assert "canary" not in output.data["output"]


@pytest.mark.parametrize("name", [".git", ".tertulia", ".mcp.json", ".codex", ".claude", ".vscode", ".idea"])
async def test_protected_names_cannot_be_made_by_a_command_or_a_patch(name: str, tmp_path: Path) -> None:
    """A4, A5: and no stub stays behind."""
    by_shell = shell("sh", "-c", f"mkdir -p {name}/hooks || echo x > {name} || mv {name} x")
    replies = [by_shell, patch(f"*** Add File: {name}/x\n+x\n"), patch(f"*** Add File: {name}\n+x\n"), "Done."]
    async with attended(tmp_path, *replies) as person:
        await done(person)
    assert "ok" not in person.codes()
    assert os.listdir(tmp_path) == []


async def test_a_patch_that_would_leave_the_workspace_changes_nothing(tmp_path: Path) -> None:
    """A23: links of files and folders, hard links, dots, absolute paths; and what stands beside them in the patch."""
    home, victim = tmp_path / "w", tmp_path / "victim"
    home.mkdir()
    victim.write_text("v\n")
    (home / "link").symlink_to(victim)
    (home / "folder").symlink_to(tmp_path)
    (home / "hard").hardlink_to(victim)
    before = sorted(os.listdir(home))
    change, fine = "@@\n-v\n+w\n", "*** Add File: fine\n+x\n"
    bad = [
        *(f"*** Update File: {path}\n{change}" for path in ("link", "folder/victim", "hard", "../victim", str(victim))),
        *(f"*** Add File: {path}\n+x\n" for path in ("folder/new", "../new", f"{tmp_path}/new")),
    ]
    async with attended(home, *(patch(fine + body) for body in bad), "Done.") as person:
        await done(person)
    assert person.codes() == ["invalid_params"] * len(bad)
    assert sorted(os.listdir(home)) == before
    assert victim.read_text() == "v\n"
    assert sorted(os.listdir(tmp_path)) == ["victim", "w"]


async def test_a_workspace_that_was_swapped_for_a_link_refuses_commands(tmp_path: Path) -> None:
    """A7"""
    home, elsewhere = tmp_path / "w", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    async with attended(home, shell(*TOUCH), patch("*** Add File: new\n+x\n"), "Done.") as person:
        home.rename(tmp_path / "moved")
        home.symlink_to(elsewhere)
        await done(person)
    assert "ok" not in person.codes()
    assert os.listdir(elsewhere) == os.listdir(tmp_path / "moved") == []


@pytest.mark.parametrize("end", ["interrupt", "close", "timeout"])
async def test_a_command_that_will_not_stop_is_stopped_with_its_daemons(end: str, tmp_path: Path) -> None:
    """A17, H3"""
    tag = f"86400.{os.getpid()}{len(end)}"
    script = f"(setsid sleep {tag} &); trap '' TERM INT HUP; while :; do sleep {tag}; done"
    limit = {"timeout_ms": 500} if end == "timeout" else {}
    async with attended(tmp_path, shell("sh", "-c", script, **limit), "Done.") as person:
        stop: dict[str, Callable[[], Any]] = {"interrupt": person.session.root.interrupt, "close": person.session.close}
        async with asyncio.TaskGroup() as group:
            task = group.create_task(person.session.root.message("go"))
            if end in stop:
                await becomes(lambda: len(living(tag)) >= 3)
                await soon(stop[end]())
            reply = await soon(task)
        assert reply.status == ("completed" if end == "timeout" else "interrupted")
        assert living(tag) == []


async def test_a_terminal_belongs_to_its_conversation_and_cannot_be_typed_into_from_inside(tmp_path: Path) -> None:
    """A22: TIOCSTI; exec_command, write_stdin."""
    sneaky = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSTI, b'x')"
    start = call("exec_command", {"cmd": "read x; echo got-$x", "tty": True, "yield_time_ms": 250})
    word = call("write_stdin", {"session_id": 1, "chars": "word\n", "yield_time_ms": 5_000})
    typed = call("exec_command", {"cmd": f'python3 -c "{sneaky}"', "tty": True})
    async with attended(
        tmp_path, start, "Started.", word, "No.", word, typed, "Done.", shell_mode="streamable"
    ) as person:
        other = await person.session.open()
        await done(person)
        await soon(other.message("steal it"))
        await done(person)
    assert person.codes() == ["ok", "not_found", "ok", "failed"]
    assert "got-word" in person.outputs[2].data["output"]
    assert "Operation not permitted" in person.outputs[3].data["output"]


async def test_output_without_end_and_without_sense_is_told_in_bounds(tmp_path: Path) -> None:
    """G3: head, tail and true size; bytes that are no text are no reason to fail."""
    much = "echo HEAD; head -c 50000000 /dev/zero | tr '\\0' a; echo TAIL"
    replies = [shell("sh", "-c", much), shell("head", "-c", "5000", "/dev/urandom"), "Done."]
    async with attended(tmp_path, *replies) as person:
        await done(person)
    data = person.outputs[0].data
    assert (person.codes(), data["truncated"]) == (["ok", "ok"], True)
    assert all(word in data["output"] for word in ("HEAD", "TAIL", "50,000,010"))
    assert len(data["output"]) < 70_000
