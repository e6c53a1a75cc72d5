"""Whether a repository would have git start a program: against a real git, with programs planted in every way."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tertulia.policy.commands.command_analysis import analyse_command, only_reads_in, safe_environment
from tertulia.policy.commands.git_repository import (
    MAX_CONFIG_BYTES,
    MAX_DIRECTORIES,
    git_starts_nothing,
    settings_that_may_start,
    why_git_may_not_write,
)
from tests.deadlines import HANG_S
from tests.tables import each_row

ENVIRONMENT = {
    "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
    "HOME": "/nonexistent",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b.c",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b.c",
}
READING = ("status", "diff", "diff HEAD", "log -p", "show", "blame a.txt", "grep x", "ls-files", "branch", "describe")


def git(place: Path, *words: str) -> str:
    ran = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *words],
        cwd=place, env=ENVIRONMENT, capture_output=True, timeout=HANG_S, check=True,
    )  # fmt: skip
    return ran.stdout.decode().strip()


def repository(place: Path) -> Path:
    """With a commit of two files, one of them changed since."""
    place.mkdir(parents=True)
    git(place, "init", "-q", "-b", "main")
    (place / "a.txt").write_text("one\n")
    (place / "b.txt").write_text("two\n")
    (place / ".gitattributes").write_text("*.txt filter=evil diff=evil\n")
    git(place, "add", ".")
    git(place, "commit", "-qm", "first")
    (place / "a.txt").write_text("uno\n")
    return place


class Scene:
    """A workspace with a nested repository, and a program that leaves a mark when it is started."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "workspace"
        self.repo = repository(self.root / "vendor" / "lib")
        self.mark = folder / "it-ran"
        self.evil = folder / "evil.sh"
        self.evil.write_text(f"#!/bin/sh\ntouch '{self.mark}'\n")
        self.evil.chmod(0o755)

    @property
    def config(self) -> Path:
        return self.repo / ".git" / "config"

    def add(self, text: str) -> None:
        with self.config.open("a") as file:
            file.write(text.replace("EVIL", str(self.evil)))

    def is_safe(self, line: str, place: Path | None = None) -> bool:
        reading = analyse_command(["bash", "-c", f"git {line}"])
        assert reading.known_safe, line
        return only_reads_in(reading, str(place or self.repo), [str(self.root)])

    def run(self, line: str, place: Path | None = None, *, safely: bool) -> None:
        """As a known-safe command runs, or as anybody would run it."""
        variables = safe_environment(ENVIRONMENT, [str(self.root)]) if safely else ENVIRONMENT
        subprocess.run(
            ["git", *line.split()], cwd=place or self.repo, env=variables, capture_output=True, check=False,
            stdin=subprocess.DEVNULL, timeout=HANG_S,
        )  # fmt: skip


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(Path(os.path.realpath(tmp_path)))


def _with_hook(scene: Scene) -> None:
    hooks = scene.repo / "hooks"
    hooks.mkdir()
    (hooks / "post-index-change").symlink_to(scene.evil)
    scene.add("[core]\n\thooksPath = hooks\n")


def _with_include(scene: Scene) -> None:
    (scene.repo / "more.cfg").write_text(f"[core]\n\tfsmonitor = {scene.evil}\n[diff]\n\texternal = {scene.evil}\n")
    scene.add("[include]\n\tpath = ../more.cfg\n")


def _with_conditional_include(scene: Scene) -> None:
    (scene.repo / "more.cfg").write_text(f"[diff]\n\texternal = {scene.evil}\n")
    scene.add('[includeIf "gitdir:**"]\n\tpath = ../more.cfg\n')


def _with_worktree_configuration(scene: Scene) -> None:
    scene.add("[extensions]\n\tworktreeConfig = true\n")
    (scene.repo / ".git" / "config.worktree").write_text(f"[diff]\n\texternal = {scene.evil}\n")


def _as_worktree(scene: Scene) -> None:
    """A linked worktree: its configuration is that of the store that it shares."""
    git(scene.repo, "worktree", "add", "-q", "../tree", "-b", "tree")
    scene.add("[diff]\n\texternal = EVIL\n")
    scene.repo = scene.repo.parent / "tree"
    (scene.repo / "a.txt").write_text("uno\n")


def _with_submodule(scene: Scene) -> None:
    """The programs of a repository within: git starts itself there, without what it was told here."""
    repository(scene.repo / "sub")
    git(scene.repo, "add", "sub")
    inner = scene.repo / "sub" / ".git" / "config"
    inner.write_text(inner.read_text() + f"[core]\n\tfsmonitor = {scene.evil}\n")


def _with_promised_objects(scene: Scene) -> None:
    blob = git(scene.repo, "rev-parse", "HEAD:b.txt")
    (scene.repo / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    scene.add(
        "[core]\n\trepositoryformatversion = 1\n\tsshCommand = EVIL\n[extensions]\n\tpartialClone = origin\n"
        '[remote "origin"]\n\turl = ssh://nowhere/x\n\tpromisor = true\n'
    )


PLANTED: dict[str, Callable[[Scene], None]] = {
    "filter.clean": lambda scene: scene.add('[filter "evil"]\n\tclean = EVIL\n'),
    "filter.process": lambda scene: scene.add('[filter "evil"]\n\tprocess = EVIL\n\trequired = true\n'),
    "diff.external": lambda scene: scene.add("[diff]\n\texternal = EVIL\n"),
    "diff.command": lambda scene: scene.add('[diff "evil"]\n\tcommand = EVIL\n'),
    "diff.textconv": lambda scene: scene.add('[diff "evil"]\n\ttextconv = EVIL\n'),
    "an old spelling": lambda scene: scene.add("[diff.evil]\n\ttextconv = EVIL\n"),
    "capitals": lambda scene: scene.add('[DIFF "evil"]\n\tTextConv = EVIL\n'),
    "one line": lambda scene: scene.add('[diff "evil"] textconv = EVIL\n'),
    "a continued line": lambda scene: scene.add('[user]\n\tname = x\\\n\n[diff "evil"]\n\ttextconv = EVIL\n'),
    "core.fsmonitor": lambda scene: scene.add("[core]\n\tfsmonitor = EVIL\n"),
    "core.hooksPath": _with_hook,
    "include.path": _with_include,
    "includeIf": _with_conditional_include,
    "config.worktree": _with_worktree_configuration,
    "a shared store": _as_worktree,
    "a submodule": _with_submodule,
    "core.sshCommand": _with_promised_objects,
}
HARMLESS_WHEN_FORCED = ("core.fsmonitor", "core.hooksPath")


@pytest.mark.parametrize("name", PLANTED)
def test_no_program_that_a_nested_repository_names_is_started_unasked(scene: Scene, name: str) -> None:
    """A4: it really would be started, and no command that is let run without asking starts it."""
    PLANTED[name](scene)
    for line in READING:
        if scene.is_safe(line):
            scene.run(line, safely=True)
    assert not scene.mark.exists()
    assert scene.is_safe("status") is (name in HARMLESS_WHEN_FORCED)
    # A hook runs where git writes its index again: for a file that has another time. Without it that depends on
    # whether the index was written in the same moment as the file.
    os.utime(scene.repo / "b.txt", (1, 1))
    for line in READING:
        scene.run(line, safely=False)
    assert scene.mark.exists(), "what was planted does nothing, so this proves nothing"


@pytest.mark.parametrize(
    "text",
    [
        '[alias]\n\tstatus = "!EVIL"\n',
        "[core]\n\tpager = EVIL\n",
        "[pager]\n\tlog = EVIL\n",
        "[core]\n\tsshCommand = EVIL\n",
        "[credential]\n\thelper = EVIL\n",
        "[core]\n\teditor = EVIL\n",
        "[merge \"x\"]\n\tdriver = EVIL\n",
        "[format]\n\tpretty = %G?\n",
        "[lfs \"customtransfer.x\"]\n\tpath = EVIL\n",
        "[remote \"x\"]\n\tuploadpack = EVIL\n",
        "[extensions]\n\tobjectformat = sha256\n",
        "[unheard-of]\n\tkey = 1\n",
        "[core]\n\tunheard-of\n",
        "no section\n[",
        "[core \"a\\\"b\"]\n\tbare = false\n",
        "[color]\n\tui = a\x00b\n",
        "[color]\n\tui = auto\\\n",
    ],
)  # fmt: skip
def test_whatever_is_not_known_to_start_nothing_is_asked_about(scene: Scene, text: str) -> None:
    """A4: keys are listed, not forbidden."""
    assert scene.is_safe("log")
    scene.add(text)
    assert not scene.is_safe("log")
    for line in READING:
        scene.run(line, safely=True)
    assert not scene.mark.exists()


def test_a_plain_repository_is_read_unasked(scene: Scene) -> None:
    """A4: what daily work leaves in a configuration is known."""
    git(scene.repo, "remote", "add", "origin", "https://example.org/x.git")
    git(scene.repo, "config", "branch.main.remote", "origin")
    git(scene.repo, "config", "user.name", "A # B")
    git(scene.repo, "config", "core.hooksPath", ".husky")
    git(scene.repo, "config", "color.diff.new", "green")
    git(scene.repo, "config", "gpg.ssh.program", "anything")
    scene.add("\r\n; a remark\r\n# another\r\n[core]\r\n\tignorecase\r\n")
    assert scene.is_safe("status")
    assert scene.is_safe("log", scene.repo / ".gitattributes")
    git(scene.repo, "worktree", "add", "-q", "../tree", "-b", "tree")
    assert scene.is_safe("status", scene.root / "vendor" / "tree")


def test_every_repository_above_counts_too(scene: Scene) -> None:
    """A4: which one git takes depends on what it finds valid."""
    git(scene.root, "init", "-q")
    assert scene.is_safe("status")
    outer = scene.root / ".git" / "config"
    outer.write_text(outer.read_text() + "[diff]\n\texternal = x\n")
    assert not scene.is_safe("status")


@pytest.mark.parametrize(
    "line",
    ["cd vendor/lib && git status", "cd vendor; cd lib; git status", "ls | cd vendor/lib && git diff", "git log"],
)
def test_where_a_script_goes_first_is_followed(scene: Scene, line: str) -> None:
    """A4: `cd` may succeed, fail, or hold for a part of a pipe only."""
    git(scene.root, "init", "-q")
    reading = analyse_command(["bash", "-lc", line])
    assert only_reads_in(reading, str(scene.root), [str(scene.root)])
    scene.add('[filter "evil"]\n\tclean = EVIL\n')
    assert only_reads_in(reading, str(scene.root), [str(scene.root)]) is (line == "git log")


@pytest.mark.parametrize("line", ["cd && git log", "cd - && git log", "cd -P vendor && git log", "cd ../.. && git log"])
def test_where_a_script_cannot_be_followed_it_is_asked_about(scene: Scene, line: str) -> None:
    git(scene.root, "init", "-q")
    assert not only_reads_in(analyse_command(["bash", "-c", line]), str(scene.root), [str(scene.root)])


def test_too_many_directories_are_not_followed(scene: Scene) -> None:
    git(scene.root, "init", "-q")
    steps = " && ".join(f"cd d{number}" for number in range(12))
    assert not only_reads_in(analyse_command(["bash", "-c", f"{steps} && git log"]), str(scene.root), [str(scene.root)])
    assert not git_starts_nothing([str(scene.root / str(n)) for n in range(MAX_DIRECTORIES + 1)], [str(scene.root)])


def test_other_commands_do_not_mind_where_they_are(tmp_path: Path) -> None:
    assert only_reads_in(analyse_command(["ls"]), str(tmp_path), [])
    assert not only_reads_in(analyse_command(["rm", "x"]), str(tmp_path), [])
    assert not only_reads_in(analyse_command([]), str(tmp_path), [])


def test_a_place_that_a_command_may_see_otherwise_is_asked_about(scene: Scene) -> None:
    """A4: below a private folder of the sandbox there may be a repository that we cannot see."""
    assert not only_reads_in(analyse_command(["git", "log"]), str(scene.repo), [])
    assert not only_reads_in(analyse_command(["git", "log"]), str(scene.repo), [str(scene.root / "other")])
    assert not git_starts_nothing([str(scene.root)], [str(scene.root)]), "no repository at all"
    assert not git_starts_nothing([], [str(scene.root)])


def test_a_bare_repository_in_the_way_is_asked_about(scene: Scene) -> None:
    bare = scene.repo / "store"
    git(scene.repo, "init", "-q", "--bare", "store")
    assert not scene.is_safe("log", bare)
    assert not scene.is_safe("log", scene.repo / ".git")


def test_what_is_no_store_is_asked_about(scene: Scene) -> None:
    other = scene.root / "other"
    other.mkdir()
    for content in ("", "gitdir: ", "nonsense", "gitdir: /nowhere\n"):
        (other / ".git").write_text(content)
        assert not scene.is_safe("log", other)
    (other / ".git").unlink()
    os.mkfifo(other / ".git")
    assert not scene.is_safe("log", other)


def test_a_configuration_that_is_too_long_or_no_file_is_asked_about(scene: Scene) -> None:
    text = scene.config.read_text()
    scene.config.write_text(text + "#" * MAX_CONFIG_BYTES)
    assert not scene.is_safe("log")
    scene.config.unlink()
    os.mkfifo(scene.config)
    assert not scene.is_safe("log")


def test_a_file_whose_size_looks_like_a_submodule_is_none(scene: Scene) -> None:
    """The bytes of a mode may stand anywhere in an index."""
    (scene.repo / "big.bin").write_bytes(b"x" * 0xE000)
    git(scene.repo, "add", ".")
    assert b"\x00\x00\xe0\x00" in (scene.repo / ".git" / "index").read_bytes()
    assert scene.is_safe("status")
    git(scene.repo, "update-index", "--skip-worktree", "a.txt")
    assert scene.is_safe("status"), "an entry with more flags"
    git(scene.repo, "update-index", "--index-version", "4")
    assert not scene.is_safe("status"), "an index that is not read"


def test_an_index_that_cannot_be_read_is_asked_about(scene: Scene) -> None:
    index = scene.repo / ".git" / "index"
    head = b"DIRC\x00\x00\x00\x02\x00\x00\x00\x05"
    index.write_bytes(head + b"\x00\x00\xe0\x00" * 30)
    assert not scene.is_safe("status")
    index.write_bytes(head + b"\x01" * 20 + b"\x00\x00\xe0\x00" * 30)
    assert not scene.is_safe("status")
    index.write_bytes(head + b"\x01" * 62 + b"\x00" * 10 + b"\x00\x00\xe0\x00" * 30)
    assert not scene.is_safe("status")


@each_row(
    ("config", "lines"),
    [
        (b"", []),
        (b"\xef\xbb\xbf[core]\r\n\tbare = false\r\n# x\n", []),
        (b'[branch "b"]\nmerge = refs/heads/b\n[remote "o"]\nurl = u\n', []),
        (b"[core]\nfsmonitor = evil\nbare = true\nhooksPath = x\n", [b"fsmonitor = evil", b"hooksPath = x"]),
        (b"[gpg]\nprogram = evil\n", [b"program = evil"]),
        (b'[remote "o"]\nuploadpack = evil\n', [b"uploadpack = evil"]),
        (b"[include]\npath = evil\n", [b"path = evil"]),
        (b"[core] fsmonitor = evil\nbare = true\n", [b"[core] fsmonitor = evil", b"bare = true"]),
        (b"[core]\nbare = \\\nfsmonitor = x\n", [b"bare = \\", b"fsmonitor = x"]),
    ],
)
def test_s2_the_lines_of_a_configuration_that_may_start_a_program(config: bytes, lines: list[bytes]) -> None:
    """S2: what a command may not leave in a repository's configuration"""
    assert [line for _, line in settings_that_may_start(config)] == lines


MAY_NOT = [
    ({"config": "[core]\n\tnewPower = x\n"}, "[core] 'newPower = x', of which it is not known"),
    ({"config": "[include]\n\tpath = x\n"}, "[include] 'path = x'"),
    ({"config": '[hook "a"]\n\tcommand = x\n'}, "[hook] 'command = x'"),
    ({"config": "[core]\n", "config.worktree": "[core]\n\tnewPower = x\n"}, "[core] 'newPower = x'"),
    ({"config": "[core]\n", "commondir": "../other\n"}, "names another directory as the common one"),
    ({"config": "[core]\n", "index": "DIRC\0\0\0\4\0\0\xe0\0"}, "it has submodules"),
    ({}, "cannot be read"),
]


@each_row("files, reason", MAY_NOT)
def test_why_git_may_not_write_a_repository_is_told(files: dict[str, str], reason: str, tmp_path: Path) -> None:
    """Issue 19, 10"""
    with tempfile.TemporaryDirectory(dir=tmp_path) as store:
        for name, text in files.items():
            Path(store, name).write_bytes(text.encode("latin-1"))
        assert reason in (why_git_may_not_write(store) or "")


def test_what_is_told_to_git_or_not_obeyed_by_it_is_no_reason(tmp_path: Path) -> None:
    """Issue 19, 10: an ordinary repository, with filters, aliases and signing."""
    place = tmp_path / "repo"
    place.mkdir()
    git(place, "init", "-q")
    for key in ("core.hooksPath", "core.editor", "alias.ci", "filter.lfs.clean", "credential.helper", "commit.gpgsign"):
        git(place, "config", key, "x")
    git(place, "config", "branch.main.remote", "origin")
    assert why_git_may_not_write(str(place / ".git")) is None
