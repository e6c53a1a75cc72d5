"""Protected files that start programs: a change is found after the command, told, and put back where that is due."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tertulia.errors import SandboxError
from tertulia.events.clock import SystemClock
from tertulia.sandbox.protected import change_watch, program_files
from tertulia.sandbox.protected.change_watch import ChangeWatch
from tertulia.sandbox.runner import Change, CommandResult, Confinement, Output, Watch
from tertulia.sandbox.sandbox import Sandbox
from tests.sandbox.confined import DEADLINE_S, NOBODY, Place, need

PLAIN = "[core]\n\tbare = false\n"
EVIL = PLAIN + "\tfsmonitor = evil\n"


class Scene:
    """A root with a repository at its top, and one deeper down."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(os.path.realpath(folder))
        self.root, self.copies = self.folder / "root", self.folder / "copies"
        self.git = self.store(".git")
        self.deep = self.store("vendor/lib/.git")
        self.places = [str(self.deep)]

    def store(self, path: str) -> Path:
        git = self.root / path
        for name in ("hooks", "objects", "refs/heads", "info"):
            (git / name).mkdir(parents=True)
        (git / "HEAD").write_text("ref: refs/heads/main\n")
        (git / "index").write_text("DIRC")
        (git / "config").write_text(PLAIN)
        (git / "hooks" / "pre-push").write_text("#!/bin/sh\ntrue\n")
        return git

    def begin(self, **fields: Any) -> ChangeWatch:
        confinement = Confinement(mode="workspace_write", writable_roots=(str(self.root),), **fields)
        return ChangeWatch(Watch(str(self.copies)), [str(self.root)], confinement, self.places)

    def after(self, command: Callable[[], object], *, held: bool = False) -> dict[str, Change]:
        watching = self.begin()
        command()
        return {os.path.relpath(change.path, self.root): change for change in watching.end(held=held)}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.fixture
def person() -> Iterator[Scene]:
    """A scene of an ordinary user, whom we are meanwhile."""
    folder = Path(tempfile.mkdtemp())
    if (is_root := os.geteuid() == 0) is True:
        os.chown(folder, NOBODY, NOBODY)
        os.setegid(NOBODY)
        os.seteuid(NOBODY)
    try:
        yield Scene(folder)
    finally:
        if is_root:
            os.seteuid(0)
            os.setegid(0)
        shutil.rmtree(folder)


@pytest.mark.parametrize("store", [".git", "vendor/lib/.git"])
def test_hooks_and_configuration_are_put_back_with_a_copy_of_what_was_written(scene: Scene, store: str) -> None:
    """S2, S3: what a command has got into a repository, by whatever way, does not stay there"""
    git = scene.root / store

    def command() -> None:
        (git / "config").write_text(EVIL)
        (git / "hooks" / "pre-commit").write_text("evil")
        (git / "hooks" / "pre-push").unlink()
        (git / "info" / "attributes").write_text("* filter=evil\n")

    changes = scene.after(command)
    assert {path: (change.how, change.left) for path, change in changes.items()} == {
        f"{store}/config": ("changed", None),
        f"{store}/hooks/pre-commit": ("made", None),
        f"{store}/hooks/pre-push": ("removed", None),
        f"{store}/info/attributes": ("made", None),
    }
    assert (git / "config").read_text() == PLAIN
    assert sorted(path.name for path in (git / "hooks").iterdir()) == ["pre-push"]
    assert not (git / "info" / "attributes").exists()
    copy = Path(str(changes[f"{store}/config"].copy))
    assert copy.read_text() == EVIL
    assert copy.stat().st_mode & 0o777 == 0o600
    assert scene.copies.stat().st_mode & 0o777 == 0o700
    assert scene.after(lambda: None) == {}


def test_a_mode_is_put_back_too(scene: Scene) -> None:
    hook = scene.git / "hooks" / "pre-push"
    hook.chmod(0o644)
    assert scene.after(lambda: hook.chmod(0o755))[".git/hooks/pre-push"].left is None
    assert hook.stat().st_mode & 0o777 == 0o644


def test_objects_references_and_the_index_are_never_put_back(scene: Scene) -> None:
    def command() -> None:
        (scene.git / "objects" / "aa").mkdir()
        (scene.git / "objects" / "aa" / "bb").write_text("object")
        (scene.git / "index").write_text("DIRC2")
        (scene.git / "refs" / "heads" / "main").write_text("0" * 40)
        (scene.git / "HEAD").write_text("ref: refs/heads/other\n")

    changes = scene.after(command)
    assert set(changes) == {".git/index", ".git/refs/heads", ".git/HEAD"}
    assert {change.left for change in changes.values()} == {"it starts no program"}
    assert (scene.git / "index").read_text() == "DIRC2"
    assert (scene.git / "refs" / "heads" / "main").exists()
    assert scene.after(lambda: None) == {}


def test_a_configuration_that_starts_nothing_new_is_left(scene: Scene) -> None:
    (scene.git / "config").write_text(PLAIN + '[alias]\n\tx = !mine\n[remote "o"]\n\turl = u\n')
    wanted = (scene.git / "config").read_text() + '[branch "b"]\n\tremote = o\n'
    changes = scene.after(lambda: (scene.git / "config").write_text(wanted))
    assert changes[".git/config"].left == "it starts no program"
    assert (scene.git / "config").read_text() == wanted


@pytest.mark.parametrize("name", [".mcp.json", ".vscode/tasks.json", ".claude/a/b/settings.json"])
def test_a_protected_file_that_was_not_there_goes_again(scene: Scene, name: str) -> None:
    """A5, in the tier that cannot keep it from being made"""

    def command() -> None:
        (scene.root / name).parent.mkdir(parents=True, exist_ok=True)
        (scene.root / name).write_text("evil")

    assert scene.after(command)[name].left is None
    assert sorted(path.name for path in scene.root.iterdir()) == [".git", "vendor"]


def test_more_files_than_are_kept_hide_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3: no number of decoys is enough"""
    monkeypatch.setattr(program_files, "MAX_FILES", 10)
    monkeypatch.setattr(program_files, "MAX_BYTES", 100)

    def command() -> None:
        (scene.root / ".vscode").mkdir()
        for number in range(30):
            (scene.root / ".vscode" / f"{number:02}").write_text("x" * 20)
        (scene.root / ".vscode" / "tasks.json").write_text("evil")

    assert len(scene.after(command)) == 31
    assert not (scene.root / ".vscode").exists()


def test_what_cannot_be_kept_as_a_whole_is_named(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3: fail closed; the tier makes it read-only"""
    monkeypatch.setattr(program_files, "MAX_FILES", 3)
    (scene.root / ".idea").mkdir()
    for number in range(4):
        (scene.root / ".idea" / str(number)).write_text("")
    watching = scene.begin()
    assert str(scene.root / ".idea") in watching.unkept
    assert not [change for change in watching.end(held=False) if "/.idea" in change.path]


def test_a_repository_that_is_moved_away_is_told_and_what_stands_for_it_taken_away(scene: Scene) -> None:
    """S4: a `.git` that names another store"""

    def command() -> None:
        scene.git.rename(scene.root / "g")
        (scene.root / ".git").write_text("gitdir: evil\n")

    changes = scene.after(command)
    assert [(path, "was removed" in str(change.left)) for path, change in changes.items()] == [(".git", True)]
    assert not os.path.lexists(scene.root / ".git")
    assert (scene.root / "g" / "config").read_text() == PLAIN
    assert scene.after(lambda: None) == {}
    changes = scene.after(lambda: shutil.rmtree(scene.root / "vendor"))
    assert changes["vendor/lib/.git"].left == "the directory that stood there was moved"


def test_the_store_that_a_worktree_names_is_watched_too(scene: Scene) -> None:
    """S4: common directory, and the target of a link"""
    store = scene.store("real")
    (store / "worktrees" / "w").mkdir(parents=True)
    (store / "worktrees" / "w" / "commondir").write_text("../..")
    (scene.root / "tree").mkdir()
    (scene.root / "tree" / ".git").write_text(f"gitdir: {store}/worktrees/w\n")
    (scene.root / "linked").mkdir()
    other = scene.store("other")
    (scene.root / "linked" / ".git").symlink_to("../other")
    scene.places += [str(scene.root / "tree" / ".git"), str(scene.root / "linked" / ".git")]

    def command() -> None:
        (store / "config").write_text(EVIL)
        (store / "worktrees" / "w" / "config.worktree").write_text(EVIL)
        (other / "hooks" / "pre-commit").write_text("evil")
        (scene.root / "tree" / ".git").write_text("gitdir: evil")
        (scene.root / "linked" / ".git").unlink()
        (scene.root / "linked" / ".git").symlink_to("../evil")

    assert [change.text() for change in scene.after(command).values() if change.left is not None] == []
    assert (store / "config").read_text() == PLAIN
    assert not (store / "worktrees" / "w" / "config.worktree").exists()
    assert not (other / "hooks" / "pre-commit").exists()
    assert (scene.root / "tree" / ".git").read_text().startswith(f"gitdir: {store}")
    assert os.readlink(scene.root / "linked" / ".git") == "../other"


def test_nothing_is_written_or_removed_through_a_link(scene: Scene) -> None:
    """S2: a directory that a link has taken the place of"""
    outside = scene.folder / "outside"
    shutil.copytree(scene.git / "hooks", outside)
    (outside / "pre-push").write_text("not ours")
    (outside / "other").write_text("not ours")

    def command() -> None:
        shutil.rmtree(scene.git / "hooks")
        (scene.git / "hooks").symlink_to(outside)
        shutil.rmtree(scene.root / "vendor" / "lib")
        (scene.root / "vendor" / "lib").symlink_to(scene.folder)

    changes = scene.after(command)
    assert changes[".git/hooks"].left is None
    assert changes["vendor/lib/.git"].left is not None
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"pre-push": "not ours", "other": "not ours"}
    assert (scene.git / "hooks" / "pre-push").read_text() == "#!/bin/sh\ntrue\n"
    assert not (scene.git / "hooks").is_symlink()


def test_what_could_not_be_put_back_is_tried_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that still runs may be in the way"""
    first, second = scene.begin(), scene.begin()
    (scene.git / "config").write_text(EVIL)
    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", lambda *_, **__: os.stat("/nonexistent"))
        (change,) = first.end(held=False)
    assert "could not be put back" in str(change.left)
    assert [change.left for change in second.end(held=False)] == [None]
    assert (scene.git / "config").read_text() == PLAIN


def test_commands_at_once_share_what_was_before_the_first(scene: Scene) -> None:
    """What one has written is not what the other takes for the user's"""
    first = scene.begin()
    (scene.git / "config").write_text(EVIL)
    second = scene.begin()
    assert [change.left for change in first.end(held=False)] == [None]
    assert (scene.git / "config").read_text() == PLAIN
    assert second.end(held=False) == ()
    assert (scene.git / "config").read_text() == PLAIN
    assert second.end(held=False) == ()


def test_where_mounts_hold_what_changes_is_told_and_left(scene: Scene) -> None:
    """The user's own work beside a command"""

    def user() -> None:
        (scene.git / "config").write_text(EVIL)
        (scene.git / "index").write_text("new")
        (scene.root / ".mcp.json").write_text("{}")

    changes = scene.after(user, held=True)
    assert set(changes) == {".git/config", ".mcp.json"}
    assert all("from outside" in str(change.left) for change in changes.values())
    assert (scene.git / "config").read_text() == EVIL


def test_another_directory_in_the_place_of_a_held_one_is_put_back_by_its_path(scene: Scene) -> None:
    """S2: in the bubblewrap tier a command can rename what a repository lies in"""

    def command() -> None:
        (scene.root / "vendor" / "lib").rename(scene.root / "vendor" / "old")
        scene.store("vendor/lib/.git")
        (scene.deep / "config").write_text(EVIL)

    changes = scene.after(command, held=True)
    assert changes["vendor/lib/.git/config"].left is None
    assert (scene.deep / "config").read_text() == PLAIN


def test_a_lock_that_somebody_lets_go_of_is_a_git_of_the_users(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = scene.git / "config.lock"
    monkeypatch.setattr(change_watch, "_pause", lock.unlink)

    def command() -> None:
        lock.touch()
        (scene.git / "config").write_text(EVIL)

    assert scene.after(command)[".git/config"].left == "a git of yours may have written it"
    assert (scene.git / "config").read_text() == EVIL


def test_a_lock_that_a_command_leaves_behind_protects_nothing_of_its_doing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_watch, "_pause", lambda: None)

    def command() -> None:
        (scene.git / "config.lock").touch()
        (scene.git / "config").write_text(EVIL)

    assert scene.after(command)[".git/config"].left is None


def test_a_running_git_of_the_users_is_not_undone(scene: Scene, tmp_path: Path) -> None:
    git = tmp_path / "git"
    shutil.copy(shutil.which("cat") or "/bin/cat", git)
    with subprocess.Popen([git], cwd=scene.root, stdin=subprocess.PIPE) as running:
        changes = scene.after(lambda: (scene.git / "config").write_text(EVIL))
        running.communicate()
    assert changes[".git/config"].left == "a git of yours may have written it"


def test_no_copy_is_kept_where_none_may_be(scene: Scene) -> None:
    """E1: storage policies"""
    confinement = Confinement(mode="workspace_write", writable_roots=(str(scene.root),))
    watching = ChangeWatch(Watch(), [str(scene.root)], confinement, [])
    (scene.git / "config").write_text(EVIL)
    (change,) = watching.end(held=False)
    assert change.copy is None
    assert change.left is None
    assert not scene.copies.exists()


def test_what_is_masked_or_protected_by_its_path_is_not_read(scene: Scene) -> None:
    """S9: no copy of a credential, and no telling of what a tier holds anyway"""
    watching = scene.begin(masked=(str(scene.root / ".claude"),), protected_paths=(str(scene.root / ".vscode"),))
    for name in (".claude", ".vscode"):
        (scene.root / name).mkdir()
        (scene.root / name / "x").write_text("x")
    assert watching.end(held=False) == ()


def test_a_root_that_is_moved_is_put_back_where_it_is_and_one_that_is_gone_refuses(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command() -> None:
        (scene.git / "config").write_text(EVIL)
        scene.root.rename(scene.folder / "moved")

    assert scene.after(command)[".git/config"].left is None
    assert (scene.folder / "moved" / ".git" / "config").read_text() == PLAIN
    with pytest.raises(SandboxError, match="nothing was run"):
        scene.begin()
    (scene.folder / "moved").rename(scene.root)
    watching = scene.begin()
    monkeypatch.setattr(os, "scandir", lambda _: os.stat("/nonexistent"))
    assert all("could not be looked at" in str(change.left) for change in watching.end(held=False))


@pytest.mark.parametrize("taken", ["", ".git", ".git/hooks", "vendor/lib", "vendor"])
def test_a_command_hides_nothing_by_taking_the_right_to_look(person: Scene, taken: str) -> None:
    """S3: an ordinary user's directories, and the one that the root lies in"""

    def command() -> None:
        for git in (person.git, person.deep):
            (git / "config").write_text(EVIL)
            (git / "hooks" / "pre-commit").write_text("evil")
        (person.root / taken).chmod(0)
        person.folder.chmod(0)

    try:
        changes = person.begin()
        command()
        assert [change.left for change in changes.end(held=False)] == [None] * 4
    finally:
        person.folder.chmod(0o700)
    for git in (person.git, person.deep):
        assert (git / "config").read_text() == PLAIN
        assert not (git / "hooks" / "pre-commit").exists()


def test_a_directory_that_may_not_be_written_is_changed_all_the_same_and_stays_so(person: Scene) -> None:
    hooks = person.git / "hooks"
    hooks.chmod(0o500)

    def command() -> None:
        hooks.chmod(0o700)
        (hooks / "pre-commit").write_text("evil")
        (hooks / "pre-push").unlink()
        hooks.chmod(0o500)

    assert {change.left for change in person.after(command).values()} == {None}
    assert os.listdir(hooks) == ["pre-push"]
    assert hooks.stat().st_mode & 0o777 == 0o500
    hooks.chmod(0o700)


def _undo(changes: dict[str, Change]) -> None:
    """As a user does it: the command of the warning, in a shell."""
    finished = CommandResult(0, "exited", Output(b"", b"", 0), 0.0, changes=(*changes.values(),))
    text = finished.undo_text()
    assert text is not None
    subprocess.run(["sh", "-ec", text.partition(": ")[2]], check=True, timeout=DEADLINE_S)


def test_what_a_git_of_the_user_did_unseen_comes_back_by_one_command(scene: Scene) -> None:
    """Point 2: it began and ended while a command ran, and nothing tells its change from the command's."""
    changes = scene.after(
        lambda: subprocess.run(["git", "-C", scene.root, "config", "core.fsmonitor", "x"], check=True)
    )
    assert [change.left for change in changes.values()] == [None]
    assert (scene.git / "config").read_text() == PLAIN
    _undo(changes)
    assert "fsmonitor = x" in (scene.git / "config").read_text()
    assert scene.after(lambda: None) == {}, "from then on it is how it was"


def test_hooks_made_changed_linked_and_removed_come_back_by_one_command(scene: Scene) -> None:
    hooks, new = scene.git / "hooks", scene.root / ".vscode" / "it's new" / "tasks.json"
    (hooks / "post-merge").write_text("old")

    def person() -> None:
        (hooks / "pre-push").unlink()
        (hooks / "pre-commit").write_text("mine")
        (hooks / "pre-commit").chmod(0o755)
        (hooks / "post-merge").unlink()
        (hooks / "post-merge").symlink_to("../../mine.sh")
        new.parent.mkdir(parents=True)
        new.write_text("{}")

    changes = scene.after(person)
    assert {change.left for change in changes.values()} == {None}
    assert sorted(os.listdir(hooks)) == ["post-merge", "pre-push"]
    _undo(changes)
    assert sorted(os.listdir(hooks)) == ["post-merge", "pre-commit"]
    assert (hooks / "pre-commit").read_text() == "mine"
    assert (hooks / "pre-commit").stat().st_mode & 0o777 == 0o755
    assert os.readlink(hooks / "post-merge") == "../../mine.sh"
    assert new.read_text() == "{}"


def test_no_command_is_named_that_would_not_do_what_it_shows(scene: Scene) -> None:
    """A name that a terminal does not show as it is; and where no copy was kept."""
    scene.copies.write_text("no directory")
    changes = scene.after(lambda: ((scene.git / "hooks" / "a\x1b[2Jb").write_text("x"), scene.git / "config"))
    assert [change.undo for change in changes.values()] == [None]
    changes = scene.after(lambda: (scene.git / "hooks" / "pre-commit").write_text("x"))
    assert [(change.copy, change.undo) for change in changes.values()] == [(None, None)]
    assert CommandResult(0, "exited", Output(b"", b"", 0), 0.0, changes=(*changes.values(),)).undo_text() is None


async def test_in_landlock_a_planted_hook_is_gone_when_the_command_is(place: Place, tmp_path: Path) -> None:
    """S1 to S4: in the tier that cannot protect names in a root, as a whole"""
    need("landlock")
    Scene(tmp_path / "scene")
    shutil.copytree(tmp_path / "scene" / "root", place.root, dirs_exist_ok=True)
    script = "echo evil > .git/hooks/pre-commit; echo evil > vendor/lib/.git/config; echo '{}' > .mcp.json; echo hi"
    watch, sandbox = Watch(str(tmp_path / "copies")), Sandbox(tier="landlock", clock=SystemClock())
    finished = await sandbox.run(place.command("sh", "-c", script, watch=watch), timeout_s=DEADLINE_S)
    await sandbox.close()
    assert finished.output.text() == "hi\n"
    assert len(finished.changes) == 3
    assert "vendor/lib/.git/config (changed; put back, copy in " in str(finished.changes_text())
    assert not (place.root / ".git" / "hooks" / "pre-commit").exists()
    assert (place.root / "vendor" / "lib" / ".git" / "config").read_text() == PLAIN
    assert not (place.root / ".mcp.json").exists()


async def test_in_landlock_what_a_command_has_made_stays_its_own(place: Place) -> None:
    """It may begin a repository with one command, and change it with the next"""
    need("landlock")
    sandbox = Sandbox(tier="landlock", clock=SystemClock())
    for script in ("mkdir -p new/.git/hooks", "echo mine > new/.git/config; echo mine > new/.git/hooks/pre-push"):
        finished = await sandbox.run(place.command("sh", "-c", script, watch=Watch()), timeout_s=DEADLINE_S)
        assert finished.changes == ()
    await sandbox.close()
    assert (place.root / "new" / ".git" / "config").read_text() == "mine\n"


async def test_in_landlock_what_cannot_be_kept_is_read_only(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3: fail closed"""
    need("landlock")
    (place.root / "sub" / ".vscode").mkdir(parents=True)
    (place.root / "sub" / ".vscode" / "large").write_bytes(bytes(1000))
    monkeypatch.setattr(program_files, "MAX_FILE_BYTES", 999)
    sandbox = Sandbox(tier="landlock", clock=SystemClock())
    script = "echo x > sub/.vscode/large; echo y > sub/.vscode/new; ls sub/.vscode"
    finished = await sandbox.run(place.command("sh", "-c", script, watch=Watch()), timeout_s=DEADLINE_S)
    await sandbox.close()
    assert "ermission denied" in finished.output.text()
    assert (place.root / "sub" / ".vscode" / "large").stat().st_size == 1000
    assert os.listdir(place.root / "sub" / ".vscode") == ["large"]


async def test_in_bubblewrap_it_is_the_second_line(place: Place, sandbox: Sandbox, tmp_path: Path) -> None:
    """S2: another directory in the place of the one that a repository lies in"""
    Scene(tmp_path / "scene")
    shutil.copytree(tmp_path / "scene" / "root", place.root, dirs_exist_ok=True)
    script = "mv vendor/lib vendor/old; mkdir -p vendor/lib/.git; echo evil > vendor/lib/.git/config; git --version"
    command = place.command("sh", "-c", script, watch=Watch(str(tmp_path / "copies")))
    finished = await sandbox.run(command, timeout_s=DEADLINE_S)
    assert any(change.path.endswith("vendor/lib/.git/config") and change.left is None for change in finished.changes)
    assert (place.root / "vendor" / "lib" / ".git" / "config").read_text() == PLAIN
    assert (place.root / "vendor" / "old" / ".git" / "config").read_text() == PLAIN
