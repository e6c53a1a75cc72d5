"""Git that is run for a conversation: the real one, in repositories that are set to start whatever they can."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import force_setattr

from tertulia.events.clock import SystemClock
from tertulia.protocol.events import WarningEvent
from tertulia.sandbox.sandbox import Sandbox
from tertulia.tools.tool import Result
from tests.deadlines import HANG_S
from tests.sandbox.confined import need
from tests.tables import each_row
from tests.tools.workbench import Answer, Workbench, allow, deny, workbench

IDENTITY = "[user]\n\tname = Ada\n\temail = ada@example.com\n"
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent"}
EVIL = '#!/bin/sh\ntouch "$(dirname "$0")/.git/it-ran" {outside}/it-ran 2>/dev/null\ncat\n'

Tier = Literal["bubblewrap", "landlock"]


def git(place: Path, *words: str, check: bool = True) -> str:
    """As the user runs it."""
    line = ["git", "-c", "protocol.file.allow=always", *words]
    ran = subprocess.run(line, cwd=place, env=ENVIRONMENT, capture_output=True, timeout=HANG_S, check=check)
    return ran.stdout.decode().strip()


def tree(folder: Path) -> dict[str, str]:
    """Every file, with its content and mode, but for those of `.git`."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if ".git" in path.relative_to(folder).parts or path.is_dir():
            continue
        found[str(path)] = f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.stat().st_mode:o}"
    return found


class Repository:
    """The workspace as a repository with one commit, a change, and a program that leaves marks when it is started."""

    def __init__(self, bench: Workbench) -> None:
        self.bench, self.root, self.store = bench, bench.root, bench.root / ".git"
        git(self.root, "init", "-q", "-b", "main")
        with (self.store / "config").open("a") as config:
            config.write(IDENTITY)
        self.evil = self.root / "evil.sh"
        self.evil.write_text(EVIL.format(outside=bench.outside))
        self.evil.chmod(0o755)
        (self.root / "a.txt").write_text("one\n")
        (self.root / "sub").mkdir()
        (self.root / "sub" / "b.txt").write_text("two\n")
        git(self.root, "add", ".")
        git(self.root, "commit", "-qm", "first")
        (self.root / "a.txt").write_text("uno\n")
        self.before = self.state()

    def state(self) -> dict[str, Any]:
        """What must stay as it is whatever git does: the working tree, and what starts programs."""
        stores = {name: (self.store / name) for name in ("config", "info/exclude", "info/attributes", "commondir")}
        return {
            "tree": tree(self.root),
            "outside": tree(self.bench.outside),
            "hooks": tree(self.store / "hooks"),
            **{name: path.read_text() if path.exists() else None for name, path in stores.items()},
        }

    def check_untouched(self) -> None:
        assert self.state() == self.before
        assert not (self.store / "it-ran").exists()
        assert not (self.bench.outside / "it-ran").exists()

    def configure(self, settings: list[str]) -> None:
        words = {"EVILS": str(self.root / "evil-hooks"), "EVIL": str(self.evil), "OUTSIDE": str(self.bench.outside)}
        for setting in settings:
            key, _, value = setting.partition("=")
            for word, meaning in words.items():
                value = value.replace(word, meaning)
            git(self.root, "config", "--file", str(self.store / "config"), key, value)
        self.before = self.state()

    def log(self) -> list[str]:
        return git(self.root, "-c", "core.hooksPath=/dev/null", "log", "--format=%an %s").splitlines()

    async def run(self, *words: str, **more: Any) -> Result:
        return await self.bench.shell("git", *words, **more)


@asynccontextmanager
async def repository(
    folder: Path, tier: Tier = "bubblewrap", *, answer: Answer | None = None, **rights: Any
) -> AsyncIterator[Repository]:
    need(tier)
    async with workbench(folder, answer, runner=Sandbox(tier=tier, clock=SystemClock())) as bench:
        bench.with_rights("on-request", **{"allow_git": True, **rights})
        yield Repository(bench)


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
async def test_a_conversation_that_is_granted_git_adds_commits_and_makes_branches_and_tags(
    tmp_path: Path, tier: Tier
) -> None:
    """Issue 19, 10: in its own repository, each as one plain command; nothing else changes."""
    async with repository(tmp_path, tier) as repo:
        for words in (
            ("add", "a.txt"),
            ("commit", "-m", "second: it's\ntwo lines"),
            ("branch", "topic"),
            ("tag", "v1"),
        ):
            result = await repo.run(*words)
            assert result.success, result.text
        assert repo.log() == ["Ada second: it's two lines", "Ada first"]
        assert (
            git(repo.root, "rev-parse", "topic", "v1^{commit}", "main").split()
            == [git(repo.root, "rev-parse", "HEAD")] * 3
        )
        assert git(repo.root, "status", "--short") == ""
        assert git(repo.root, "fsck") == ""
        repo.check_untouched()


COMMITS = [
    ("bash", "-c", "git commit -am 'in a shell'"),
    ("/bin/sh", "-c", "/usr/bin/git commit --all --message=long -q"),
    ("git", "commit", "-qam", "letters together"),
    ("git", "commit", "-m", "a path", "--", "a.txt"),
    ("git", "commit", "-a", "-F", "message.txt"),
    ("git", "commit", "-a", "--amend", "--no-edit"),
]


@pytest.mark.parametrize("argv", COMMITS)
async def test_it_is_recognised_however_it_is_written(tmp_path: Path, argv: tuple[str, ...]) -> None:
    async with repository(tmp_path) as repo:
        (repo.root / "message.txt").write_text("from a file\n")
        repo.before = repo.state()
        result = await repo.bench.shell(*argv)
        assert result.success, result.text
        assert len(repo.log()) == (1 if "--amend" in argv else 2)
        assert git(repo.root, "show", "HEAD:a.txt") == "uno"
        repo.check_untouched()


async def test_it_works_from_a_directory_below_and_with_exec_command(tmp_path: Path) -> None:
    async with repository(tmp_path) as repo:
        (repo.root / "sub" / "new.txt").write_text("new\n")
        repo.before = repo.state()
        assert (await repo.run("add", "new.txt", "../a.txt", workdir="sub")).success
        cmd = {"cmd": "git commit -m 'by exec_command'", "workdir": "sub"}
        assert (await repo.bench.call("exec_command", cmd)).success
        assert git(repo.root, "show", "--name-only", "--format=%s").split() == [
            "by",
            "exec_command",
            "a.txt",
            "sub/new.txt",
        ]
        repo.check_untouched()


async def test_without_the_grant_the_refusal_says_why_and_how_to_go_on(tmp_path: Path) -> None:
    """Issue 19, 10"""
    async with repository(tmp_path, allow_git=False) as repo:
        result = await repo.run("commit", "-am", "no")
        assert not result.success
        assert "`.git` is protected" in result.text
        assert "allow_git = true" in result.text
        assert "sandbox_permissions = 'require_escalated'" in result.text
        repo.bench.with_rights("never", allow_git=False)
        result = await repo.run("commit", "-am", "no")
        assert "`.git` is protected" in result.text
        assert "require_escalated" not in result.text
        assert repo.log() == ["Ada first"]
        repo.check_untouched()


@pytest.mark.parametrize("tool", ["shell", "exec_command"])
async def test_a_yes_to_leave_the_sandbox_is_one_key_away(tmp_path: Path, tool: str) -> None:
    """Issue 19, 10: the person is asked at once, and with a no the failure stands."""
    async with repository(tmp_path, answer=deny, allow_git=False) as repo:
        words = ["git", "commit", "-am", "asked"]
        arguments = {"command": words} if tool == "shell" else {"cmd": " ".join(words)}
        result = await repo.bench.call(tool, arguments)
        assert not result.success
        assert "`.git` is protected" in result.text
        assert [request.kind for request in repo.bench.asked] == ["escalation"]
        repo.bench.answer = allow
        assert (await repo.bench.call(tool, arguments)).success
        assert repo.log() == ["Ada asked", "Ada first"]
        warnings = [event for event in repo.bench.events if isinstance(event, WarningEvent)]
        assert [warning.code for warning in warnings] == ["git_protected"] * 2, "one for each failure inside"
        assert "`.git` is protected" in warnings[0].message
        assert "allow_git = true" in warnings[0].message


async def test_another_failure_of_git_is_not_asked_about(tmp_path: Path) -> None:
    async with repository(tmp_path, answer=allow, allow_git=False) as repo:
        result = await repo.run("log", "no-such-branch")
        assert not result.success
        assert "protected" not in result.text
        assert repo.bench.asked == []


OTHERS = [
    (("git", "checkout", "a.txt"), "`git checkout` is not among add, branch, commit, tag"),
    (("git", "-C", ".", "commit", "-am", "x"), "no option may stand before the verb, and '-C' does"),
    (("git", "-c", "core.editor=true", "commit", "-a"), "and '-c' does"),
    (("git", "--git-dir=.git", "commit", "-am", "x"), "and '--git-dir=.git' does"),
    (("git", "commit", "-S", "-am", "x"), "the option '-S' of `git commit` is not listed"),
    (("git", "commit", "--template=evil.sh", "-a"), "the option '--template=evil.sh' of `git commit` is not listed"),
    (("git", "commit", "-a"), "there is no editor"),
    (("git", "tag", "-a", "v1"), "there is no editor"),
    (("git", "add", "--renormalize", "."), "the option '--renormalize' of `git add` is not listed"),
    (("bash", "-c", "git add a.txt && git commit -m x"), "it is more than one command"),
    (("bash", "-c", "GIT_DIR=.git git commit -am x"), "it is not one plain command"),
]


@pytest.mark.parametrize(("argv", "reason"), OTHERS)
async def test_what_is_not_listed_is_not_run_for_it_and_the_reason_is_told(
    tmp_path: Path, argv: tuple[str, ...], reason: str
) -> None:
    """Issue 19, 10: no `-c`, nothing that writes the working tree, no other repository, no editor."""
    async with repository(tmp_path) as repo:
        result = await repo.bench.shell(*argv)
        assert not result.success
        # One that wants an editor and has none may fail before it writes.
        assert reason in result.text or "editor" in reason
        assert repo.log() == ["Ada first"]
        repo.check_untouched()


HOSTILE = {
    "hooks": ["core.hooksPath=EVILS"],
    "fsmonitor": ["core.fsmonitor=EVIL"],
    "signing": ["commit.gpgSign=true", "tag.gpgSign=true", "gpg.program=EVIL", "user.signingKey=x"],
    "ssh signing": ["commit.gpgSign=true", "gpg.format=ssh", "gpg.ssh.program=EVIL", "user.signingKey=x"],
    "editors": ["core.editor=EVIL", "core.pager=EVIL", "core.askPass=EVIL", "sequence.editor=EVIL"],
    "aliases": ["alias.commit=!EVIL", "alias.add=!EVIL", "alias.branch=!EVIL"],
    "ssh and credentials": ["core.sshCommand=EVIL", "credential.helper=!EVIL", "credential.https://x.helper=!EVIL"],
    "diffs": ["diff.external=EVIL", "diff.evil.textconv=EVIL", "diff.evil.command=EVIL"],
    "merges": ["merge.evil.driver=EVIL"],
    "maintenance": ["gc.auto=1", "gc.recentObjectsHook=EVIL", "maintenance.auto=true"],
    "a template": ["commit.template=evil.sh", "commit.verbose=true"],
    "another working tree": ["core.worktree=OUTSIDE"],
    "filters": ["filter.evil.clean=EVIL", "filter.evil.required=true", "filter.long.process=EVIL"],
}


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("name", HOSTILE)
async def test_what_a_hostile_repository_would_start_is_not_started(tmp_path: Path, name: str, tier: Tier) -> None:
    """Issue 19, 10: and the commit is made."""
    async with repository(tmp_path, tier) as repo:
        hooks = repo.root / "evil-hooks"
        hooks.mkdir()
        for folder in (hooks, repo.store / "hooks"):
            for hook in ("pre-commit", "commit-msg", "prepare-commit-msg", "post-commit", "reference-transaction"):
                (folder / hook).write_text(repo.evil.read_text())
                (folder / hook).chmod(0o755)
            (folder / "post-index-change").symlink_to(repo.evil)
        repo.configure(HOSTILE[name])
        for words in (("add", "-u"), ("commit", "-m", "second"), ("branch", "topic"), ("tag", "-m", "one", "v1")):
            result = await repo.run(*words)
            assert result.success, result.text
        assert repo.log() == ["Ada second", "Ada first"]
        assert git(repo.root, "-c", "core.worktree=.", "show", "HEAD:a.txt") == "uno"
        repo.check_untouched()


def test_those_programs_would_be_started_without_us(tmp_path: Path) -> None:
    """Or the test above would prove nothing."""
    started = set()
    for name in ("fsmonitor", "signing", "editors", "filters"):
        folder = tmp_path / name
        (folder / "workspace").mkdir(parents=True)
        (folder / "outside").mkdir()
        bench = type("Bench", (), {"root": folder / "workspace", "outside": folder / "outside"})()
        repo = Repository(bench)
        repo.configure(HOSTILE[name])
        (repo.root / ".gitattributes").write_text("*.txt filter=evil\n")
        git(repo.root, "commit", "-a", *(() if name == "editors" else ("-m", "x")), check=False)
        started |= {name} if (folder / "outside" / "it-ran").exists() else set()
    assert started == {"fsmonitor", "signing", "editors", "filters"}


REFUSED = {
    "an include": ["include.path=../evil.config"],
    "an include by condition": ["includeIf.gitdir:/.path=../evil.config"],
    "hooks by configuration": ["hook.evil.event=pre-commit", "hook.evil.command=EVIL"],
    "a partial clone": ["remote.origin.promisor=true", "remote.origin.url=ext::EVIL"],
    "a setting of tomorrow": ["core.startsWhatever=EVIL"],
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_setting_that_is_not_known_is_a_reason_not_to_run_it(tmp_path: Path, name: str) -> None:
    async with repository(tmp_path) as repo:
        (repo.root / "evil.config").write_text(f"[core]\n\tfsmonitor = {repo.evil}\n")
        repo.configure(REFUSED[name])
        result = await repo.run("commit", "-am", "no")
        assert not result.success
        assert "of which it is not known that it starts no program" in result.text or name == "a partial clone"
        assert not (repo.bench.outside / "it-ran").exists()
        assert repo.log() == ["Ada first"]


@pytest.mark.parametrize("where", ["tree", "info", "below"])
@pytest.mark.parametrize("words", [("add", "."), ("commit", "-am", "x"), ("commit", "-m", "x", "a.txt")])
async def test_a_file_whose_attributes_name_a_filter_is_not_taken_in_and_is_named(
    tmp_path: Path, where: str, words: tuple[str, ...]
) -> None:
    """Issue 19, 10: wherever the attribute stands; other files are."""
    async with repository(tmp_path) as repo:
        place = {"tree": ".gitattributes", "info": ".git/info/attributes", "below": "sub/.gitattributes"}[where]
        (repo.root / place).parent.mkdir(exist_ok=True)
        (repo.root / place).write_text("*.txt filter=evil\n")
        (repo.root / "sub" / "b.txt").write_text("dos\n")
        repo.configure(HOSTILE["filters"])
        before = git(repo.root, "-c", "filter.evil.clean=cat", "diff", "--cached")
        result = await repo.run(*words)
        if where == "below" and "a.txt" in words:
            assert result.success, result.text
            return
        assert not result.success
        assert f"{'sub/b.txt' if where == 'below' else 'a.txt'} (evil)" in result.text
        assert "name a filter" in result.text
        assert repo.log() == ["Ada first"]
        assert git(repo.root, "-c", "filter.evil.clean=cat", "diff", "--cached") == before
        repo.check_untouched()


async def test_a_file_with_a_filter_that_is_not_named_stays_as_it_is_and_starts_nothing(tmp_path: Path) -> None:
    """Git looks at files that a command does not name, too."""
    async with repository(tmp_path) as repo:
        (repo.root / ".git/info").mkdir(exist_ok=True)
        (repo.root / ".git/info/attributes").write_text("sub/b.txt filter=evil\n")
        (repo.root / "sub" / "b.txt").write_text("dos\n")
        repo.configure(HOSTILE["filters"])
        assert (await repo.run("add", "a.txt")).success
        assert (await repo.run("commit", "-m", "only the other")).success
        assert git(repo.root, "show", "--name-only", "--format=").split() == ["a.txt"]
        repo.check_untouched()


async def test_what_the_environment_says_to_git_is_not_heard(tmp_path: Path) -> None:
    """Issue 19, 10: of the session's own; a command line cannot set any."""
    async with repository(tmp_path) as repo:
        other = tmp_path / "other"
        git(tmp_path, "init", "-q", str(other))
        hostile = {
            "GIT_DIR": str(other / ".git"),
            "GIT_WORK_TREE": str(repo.bench.outside),
            "GIT_INDEX_FILE": str(other / "index"),
            "GIT_EDITOR": str(repo.evil),
            "GIT_EXTERNAL_DIFF": str(repo.evil),
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "core.fsmonitor",
            "GIT_CONFIG_VALUE_0": str(repo.evil),
            "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor'='{repo.evil}'",
            "GIT_SSH_COMMAND": str(repo.evil),
            "GIT_EXEC_PATH": str(repo.root),
            "GIT_TEMPLATE_DIR": str(repo.root),
            "LD_PRELOAD": str(repo.evil),
        }
        place = repo.bench.place
        force_setattr(place, "environment", {**place.environment, **hostile})
        assert (await repo.run("commit", "-am", "second")).success
        assert repo.log() == ["Ada second", "Ada first"]
        assert git(other, "rev-list", "--all") == ""
        repo.check_untouched()


@pytest.mark.parametrize("kind", ["file", "link", "worktree", "submodule", "nested", "bare"])
async def test_a_repository_that_lies_elsewhere_is_not_written(tmp_path: Path, kind: str) -> None:
    """Issue 19, 10: a `.git` that is a file or a link, a worktree, a submodule, one deeper down."""
    async with repository(tmp_path) as repo:
        other = tmp_path / "other"
        git(tmp_path, "init", "-q", "-b", "main", str(other))
        (other / ".git" / "config").write_text((repo.store / "config").read_text())
        (other / "file").write_text("theirs\n")
        git(other, "add", ".")
        git(other, "commit", "-qm", "theirs")
        workdir = "."
        if kind in ("file", "link"):
            repo.store.rename(tmp_path / "kept")
            if kind == "file":
                repo.store.write_text(f"gitdir: {other / '.git'}\n")
            else:
                repo.store.symlink_to(other / ".git")
        elif kind == "worktree":
            git(other, "worktree", "add", "-q", "-b", "tree", str(repo.root / "tree"))
            workdir = "tree"
        elif kind == "submodule":
            git(repo.root, "submodule", "add", "-q", str(other), "module")
            git(repo.root, "commit", "-qm", "with a module")
        elif kind == "nested":
            git(repo.root, "init", "-q", "inner")
            workdir = "inner"
        else:
            git(tmp_path, "clone", "-q", "--bare", str(other), str(repo.root / "store"))
            workdir = "store"
        heads = git(other, "for-each-ref"), git(other, "status", "--porcelain")
        (repo.root / "module" if kind == "submodule" else repo.root / workdir).joinpath("new").write_text("x")
        for words in (("add", "-A"), ("commit", "-m", "mine")):
            result = await repo.run(*words, workdir=workdir)
            assert not result.success, result.text
        assert (git(other, "for-each-ref"), git(other, "status", "--porcelain")) == heads


async def test_what_a_repository_leads_to_elsewhere_is_not_written(tmp_path: Path) -> None:
    """Links inside of `.git`: git would follow them, and is confined to the directory."""
    async with repository(tmp_path) as repo:
        target = repo.bench.outside / "index"
        target.write_bytes((repo.store / "index").read_bytes())
        (repo.store / "index").unlink()
        (repo.store / "index").symlink_to(target)
        before = target.read_bytes()
        assert not (await repo.run("add", "a.txt")).success
        assert target.read_bytes() == before
        assert sorted(path.name for path in repo.bench.outside.iterdir()) == ["index"]


async def test_what_is_masked_is_not_brought_into_the_repository(tmp_path: Path) -> None:
    """S9: git is confined like a command: what that cannot read, no blob has."""
    need("bubblewrap")
    secret = tmp_path / "workspace" / "key"
    async with workbench(tmp_path, masked=(str(secret),), runner=Sandbox(clock=SystemClock())) as bench:
        bench.with_rights("on-request", allow_git=True)
        repo = Repository(bench)
        secret.write_text("canary-4711")
        await repo.run("add", "-A")
        await repo.run("commit", "-m", "all of it")
        blobs = git(repo.root, "cat-file", "--batch-all-objects", "--batch-check").split()
        texts = [git(repo.root, "cat-file", "-p", blob) for blob in blobs if len(blob) == 40]
        assert not any("canary-4711" in text for text in texts)


async def test_it_is_not_run_in_a_sandbox_that_only_reads(tmp_path: Path) -> None:
    async with repository(tmp_path, sandbox="read_only") as repo:
        assert not (await repo.run("commit", "-am", "no")).success
        assert repo.log() == ["Ada first"]
        repo.check_untouched()


@each_row("policy", ["untrusted", "never"])
async def test_the_approval_policy_holds_as_for_any_command(policy: str, tmp_path: Path) -> None:
    """B1: what is asked about is asked about, and a no is a no."""
    folder = tmp_path / policy
    folder.mkdir()
    async with repository(folder, answer=deny) as repo:
        repo.bench.with_rights(policy, allow_git=True)
        result = await repo.run("commit", "-am", "second")
        assert result.success is (policy == "never")
        assert [request.kind for request in repo.bench.asked] == ([] if policy == "never" else ["exec"])


async def test_a_command_itself_still_cannot_write_the_repository(tmp_path: Path) -> None:
    """Issue 19, 10: `.git` is never writable to the command."""
    async with repository(tmp_path) as repo:
        for script in (
            "echo x > .git/hooks/pre-commit",
            "git config core.fsmonitor ./evil.sh",
            "git -c x.y=z commit -am x",
        ):
            assert not (await repo.bench.shell("bash", "-c", script)).success
        assert repo.log() == ["Ada first"]
        repo.check_untouched()


def test_the_program_of_the_test_leaves_its_mark(tmp_path: Path) -> None:
    """Or no test here would prove anything."""
    (tmp_path / ".git").mkdir()
    evil = tmp_path / "evil.sh"
    evil.write_text(EVIL.format(outside=tmp_path))
    evil.chmod(0o755)
    subprocess.run([str(evil)], check=True, stdin=subprocess.DEVNULL, timeout=HANG_S)
    assert os.path.exists(tmp_path / ".git" / "it-ran")
    assert os.path.exists(tmp_path / "it-ran")
