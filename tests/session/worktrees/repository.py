"""A real repository for tests of worktrees, and what git says of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

_PATH = os.environ["PATH"]


class Repository:
    """One in a directory, used by a git with no configuration of the machine."""

    def __init__(self, top: Path) -> None:
        top.mkdir(parents=True, exist_ok=True)
        self.top = Path(os.path.realpath(top))
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str, at: Path | None = None) -> str:
        """What git answers; an exit code is an AssertionError that has its words."""
        ended = subprocess.run(
            ["git", "-C", str(at or self.top), *words],
            env={**variables(Path("/nowhere")), "GIT_CONFIG_NOSYSTEM": "1", **_AUTHOR},
            capture_output=True,
            check=False,
        )
        assert ended.returncode == 0, f"git {words}: {ended.stderr.decode()}"
        return ended.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")

    def write(self, name: str, content: str = "") -> Path:
        """A file of the tree."""
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    def commit(self, message: str = "more") -> str:
        """Everything, as one more commit."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def tree(self, commit: str) -> dict[str, str]:
        """Mode and content of each file of a commit, by path."""
        listed = self.git("ls-tree", "-r", "-z", "--full-tree", commit).split("\0")[:-1]
        found: dict[str, str] = {}
        for line in listed:
            facts, _, path = line.partition("\t")
            mode, kind, id = facts.split(" ")
            found[path] = f"{mode} {id if kind == 'commit' else self.git('cat-file', 'blob', id)}"
        return found

    def refs(self) -> dict[str, str]:
        """Each ref and what it names, with HEAD."""
        lines = self.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        head = (self.top / ".git" / "HEAD").read_text() if (self.top / ".git").is_dir() else ""
        return {"HEAD": head, **dict(line.split(" ") for line in lines)}

    def fingerprint(self) -> dict[str, object]:
        """All that a user could notice: files with their content and times, index, refs, status."""
        files: dict[str, object] = {}
        for folder, names, entries in os.walk(self.top):
            names[:] = [name for name in names if name != ".git"]
            for entry in (*names, *entries):
                path = os.path.join(folder, entry)
                status = os.lstat(path)
                content = os.readlink(path) if os.path.islink(path) else b""
                if os.path.isfile(path) and not os.path.islink(path):
                    content = Path(path).read_bytes()
                # Of a directory not the time: a command of the user's session leaves a trace there by itself.
                changed = 0 if os.path.isdir(path) else status.st_mtime_ns
                files[os.path.relpath(path, self.top)] = (status.st_mode, changed, content)
        index = self.top / ".git" / "index"
        seen = (index.stat().st_mtime_ns, index.read_bytes()) if index.exists() else None
        config = (self.top / ".git" / "config").read_bytes()
        return {"files": files, "index": seen, "refs": self.refs(), "config": config}


def committed(top: Path) -> Repository:
    """A repository with a commit of two files."""
    repository = Repository(top)
    repository.write("a.txt", "one\ntwo\nthree\n")
    repository.write("src/b.txt", "b\n")
    repository.commit("first")
    return repository


def variables(home: Path) -> Mapping[str, str]:
    """What a user's process has: a home without settings, and the PATH."""
    if home != Path("/nowhere"):
        home.mkdir(parents=True, exist_ok=True)
    return {"HOME": str(home), "PATH": _PATH}


_AUTHOR = {
    f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "T"), ("EMAIL", "t@t"))
}
