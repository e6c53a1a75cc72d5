"""What a yes outside the sandbox is bound to: the scripts and programs that a command's words name."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tertulia.policy.commands import named_files as module
from tertulia.policy.commands.named_files import NamedFile, NamedFiles, named_files

PATH = "/usr/bin:/bin"


class Scene:
    """A workspace with a script or two."""

    def __init__(self, folder: Path) -> None:
        self.root = Path(os.path.realpath(folder)) / "w"
        self.root.mkdir()
        self.environment = {"PATH": PATH, "HOME": "/nonexistent"}
        self.write("run.sh", "echo one\n")

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def named(self, *argv: str, **changes: Any) -> NamedFiles:
        fields: dict[str, Any] = {"cwd": str(self.root), "environment": self.environment, "roots": [str(self.root)]}
        return named_files(argv, **fields | changes)

    def contents(self, *argv: str) -> list[str]:
        """Names of what is bound by its content; what runs must be known."""
        named = self.named(*argv)
        assert named.known, named
        return [os.path.relpath(file.path, self.root) for file in named.contents]

    def rewritten(self, name: str, *argv: str) -> bool:
        """Whether a change of this file is a change for the command."""
        before = self.named(*argv)
        with (self.root / name).open("a") as file:
            file.write("echo evil\n")
        after = self.named(*argv)
        return before != after and after.changed_since(before) == (str(self.root / name),)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.mark.parametrize(
    "argv",
    [
        ("bash", "run.sh"),
        ("/bin/sh", "-eu", "./run.sh", "argument"),
        ("./run.sh",),
        ("sh", "-c", "./run.sh"),
        ("bash", "-c", "echo first && sh run.sh"),
        ("bash", "-c", "source ./run.sh"),
        ("bash", "-c", "sh -c './run.sh'"),
        ("bash", "-c", "./run.sh >> log.txt 2>&1 | cat"),
        ("bash", "-c", "echo 'a > b'; >log.txt ./run.sh"),
        ("cp", "run.sh", "/usr/local/bin/tool"),
        ("touch", "--reference=run.sh", "/somewhere"),
    ],
)
def test_a_script_that_words_name_is_bound_by_what_is_in_it(scene: Scene, argv: tuple[str, ...]) -> None:
    """A3"""
    scene.write("run.sh", "echo one\n", 0o755)
    assert scene.contents(*argv) == ["run.sh"]
    assert scene.rewritten("run.sh", *argv)


@pytest.mark.parametrize(
    "argv",
    [
        ("make",), ("make", "test"), ("npm", "run", "x"), ("cargo", "build"), ("go", "build"), ("git", "status"),
        ("python3", "-m", "http.server"), ("python3", "-c", "import x"), ("python3", "package"), ("python3",),
        ("python3", "-X", "dev", "x.py"), ("bash",), ("bash", "-s"), ("bash", "-i", "run.sh"), ("bash", "missing.sh"),
        ("bash", "-c", "cd sub && ./run.sh"), ("bash", "-c", "test -v 'a[$(./run.sh)]'"),
        ("bash", "-c", "printf -v 'a[$(./run.sh)]' x"), ("bash", "-c", "echo $(./run.sh)"),
        ("bash", "-c", "source run.sh"),
        ("bash", "-c", "source"), ("bash", "-c", "bash < run.sh"),
        ("bash", "-c", "> a'./run.sh' make"), ("bash", "-c", "'./run.sh > b' x"), ("bash", "-c", "echo >(./run.sh)"),
        ("bash", "-c", "echo x >$(./run.sh)"), ("bash", "-c", "eval ./run.sh"), ("bash", "-c", "exec ./run.sh"),
        ("env", "X=1", "./run.sh"), ("xargs", "./run.sh"), ("find", ".", "-exec", "./run.sh", ";"),
        ("cp", "-r", ".", "/x"),
        ("source", "./run.sh"), ("curl", "-K", "settings"), ("curl", "--engine", "x"), ("curl", "-sK", "settings"),
        ("./missing",), ("no-such-program",), ("pytest",), ("..",), ("python3", "pipe"),
        ("sort", "--compress-program=x"),
    ],
)  # fmt: skip
def test_where_it_cannot_be_told_what_would_run_nothing_is_known(scene: Scene, argv: tuple[str, ...]) -> None:
    """A3"""
    scene.write("run.sh", "echo one\n", 0o755)
    scene.write("package/__main__.py", "")
    os.mkfifo(scene.root / "pipe")
    assert not scene.named(*argv).known


@pytest.mark.parametrize(
    "argv",
    [
        ("touch", "/x"),
        ("cp", "notes.md", "/x"),
        ("ls", "."),
        ("curl", "-sS", "-o", "notes.md", "http://x"),
        ("rm", "-r", "."),
    ],
)
def test_programs_that_start_nothing_are_bound_by_their_words(scene: Scene, argv: tuple[str, ...]) -> None:
    scene.write("notes.md", "text")
    for name in ("curl",):
        scene.write(f"../bin/{name}", "", 0o755)
    scene.environment["PATH"] = f"{PATH}:{scene.root.parent / 'bin'}"
    assert [name for name in scene.contents(*argv) if not name.startswith("../bin/")] == []


def test_what_a_script_names_in_turn_is_bound_too(scene: Scene) -> None:
    """A3"""
    scene.write("run.sh", '. "$DIR/lib/more.sh"\n./lib/tool\nnotes.md /lib/more.sh lib\n')
    scene.write("lib/more.sh", "bash ../run.sh\n")
    scene.write("lib/tool", "#!/bin/sh\n", 0o755)
    scene.write("notes.md", "no code")
    assert scene.contents("bash", "run.sh") == ["lib/more.sh", "lib/tool", "run.sh"]
    assert scene.rewritten("lib/more.sh", "bash", "run.sh")


def test_python_is_bound_to_all_that_it_could_import_from_beside_its_script(scene: Scene) -> None:
    """A3"""
    scene.write("x.py", "import json")
    scene.write("package/part.py", "")
    scene.write(".venv/lib/other.py", "")
    scene.write("notes.md", "")
    assert scene.contents("python3", "-B", "x.py") == ["package/part.py", "x.py"]
    before = scene.named("python3", "x.py")
    scene.write("re.py", "evil")
    assert scene.named("python3", "x.py").changed_since(before) == (str(scene.root / "re.py"),)
    scene.write("tool", "#!/usr/bin/env python3\n", 0o755)
    assert scene.contents("./tool") == ["package/part.py", "re.py", "tool", "x.py"]


def test_a_script_of_the_system_looks_for_modules_where_nobody_here_writes(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A3: nothing of the standard library has to be read."""
    monkeypatch.setattr(module, "_SYSTEM", ("/usr", "/bin", os.path.realpath(tmp_path / "system")))
    scene.write("../system/tool.py", "")
    named = scene.named("python3", "../system/tool.py")
    assert (named.known, named.contents) == (True, ())


def test_a_program_of_the_workspace_is_bound_and_its_interpreter_must_not_be_one(scene: Scene) -> None:
    """A3"""
    (scene.root / "binary").write_bytes(b"\x7fELF and more")
    assert scene.contents("./binary") == ["binary"]
    scene.write("sh", "#!/bin/sh\n", 0o755)
    for line in ("#!./sh", f"#!{scene.root}/sh", "#!", "#!/usr/bin/env", "#!/usr/bin/env node", "#!/usr/bin/make -f"):
        scene.write("tool", f"{line}\n", 0o755)
        assert not scene.named("./tool").known, line


def test_a_name_is_looked_up_as_the_system_would(scene: Scene) -> None:
    """A3: a program that is put before another one in PATH is another program."""
    scene.environment["PATH"] = f"{scene.root}/bin:bin2:{PATH}"
    before = scene.named("touch", "/x")
    assert before.known
    scene.write("bin2/touch", "evil\n", 0o755)
    after = scene.named("touch", "/x")
    assert after.changed_since(before) == (str(scene.root / "bin2/touch"),)
    scripted = scene.named("bash", "run.sh")
    scene.write("run.sh", "ls -l\n")
    plain = scene.named("bash", "run.sh")
    scene.write("bin/ls", "evil\n", 0o755)
    assert scene.named("bash", "run.sh").changed_since(plain) == (str(scene.root / "bin/ls"),)
    assert plain != scripted
    assert not scene.named("touch", "/x", environment={}).known


def test_a_link_is_bound_to_where_it_leads(scene: Scene) -> None:
    """A3"""
    for name in ("one.sh", "two.sh"):
        scene.write(name, "echo the same\n")
    link = scene.root / "link.sh"
    link.symlink_to("one.sh")
    before = scene.named("bash", "link.sh")
    link.unlink()
    link.symlink_to("two.sh")
    assert scene.named("bash", "link.sh").changed_since(before) == (str(link),)
    (scene.root / "python").symlink_to(sys.executable)
    assert not scene.named("./python", "x.py").known
    link.unlink()
    link.symlink_to("link.sh")
    assert not scene.named("bash", "link.sh").known


@pytest.mark.parametrize(
    ("name", "value", "known"),
    [
        ("LD_PRELOAD", "evil.so", False), ("LD_PRELOAD", "{root}/evil.so", False), ("PYTHONPATH", "{root}", False),
        ("PYTHONPATH", "/usr/lib:", False), ("BASH_ENV", "{root}/rc", False), ("BASH_FUNC_ls%%", "() { :; }", False),
        ("ENV", "{root}/rc", False), ("OPENSSL_CONF", "{root}/x", False), ("XDG_CONFIG_HOME", "{root}/c", False),
        ("RIPGREP_CONFIG_PATH", "{root}/x", False), ("HOME", "{root}/home", False),
        ("LD_LIBRARY_PATH", "/usr/lib", True),
        ("PYTHONUNBUFFERED", "1", True), ("PYTHONPATH", "", True), ("EDITOR", "vi", True),
    ],
)  # fmt: skip
def test_variables_that_load_code_of_the_workspace_make_it_unknown(
    scene: Scene, name: str, value: str, known: bool
) -> None:
    """A3"""
    scene.environment[name] = value.replace("{root}", str(scene.root))
    assert scene.named("bash", "run.sh").known is known


def test_the_work_is_bounded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, most in (("MAX_FILES", 1), ("MAX_LOOKS", 2), ("MAX_BYTES", 3)):
        with monkeypatch.context() as patch:
            patch.setattr(module, limit, most)
            assert not scene.named("bash", "run.sh").known
    assert scene.named("bash", "run.sh").known


def test_a_file_that_is_exactly_as_large_as_the_limit_is_read(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", (scene.root / "run.sh").stat().st_size)
    assert scene.named("bash", "run.sh").known
    monkeypatch.setattr(module, "MAX_BYTES", (scene.root / "run.sh").stat().st_size - 1)
    assert not scene.named("bash", "run.sh").known


def test_what_is_gone_counts_as_changed() -> None:
    before = NamedFiles((NamedFile("/a", "1"), NamedFile("/b", "2")))
    assert NamedFiles((NamedFile("/a", "1"),)).changed_since(before) == ("/b",)
    assert before.changed_since(before) == ()


def test_a_program_that_is_called_like_the_change_of_directory_changes_nothing(scene: Scene) -> None:
    """A3: some systems have one in `/usr/bin`, and the shell's own comes first."""
    scene.write("../bin/cd", "", 0o755)
    scene.environment["PATH"] = f"{PATH}:{scene.root.parent / 'bin'}"
    assert not scene.named("bash", "-c", "cd sub && bash run.sh").known
