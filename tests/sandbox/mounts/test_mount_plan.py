"""What is bound where: nothing writable but the roots, by descriptor, whatever anybody calls the working directory."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tertulia.errors import SandboxError
from tertulia.sandbox.mounts import mount_plan
from tertulia.sandbox.mounts.entries import MountEntry, decode_entries
from tertulia.sandbox.mounts.helper_program import STAGING
from tertulia.sandbox.mounts.mount_plan import GuardedMounts, MountPlan
from tertulia.sandbox.mounts.nested_protected import NestedProtectedPaths
from tertulia.sandbox.mounts.stubs import Stub
from tertulia.sandbox.runner import PROTECTED_NAMES, Command, Confinement
from tertulia.sandbox.sandbox import Sandbox
from tests.sandbox.confined import DEADLINE_S, Place


def planned(mounts: MountPlan) -> dict[str, MountEntry]:
    """What is mounted where."""
    return {entry.path: entry for entry in decode_entries(mounts.plan())[1]}


def opened(command: Command) -> tuple[set[str], set[str]]:
    """(what can be written, what is read-only)"""
    mounts = MountPlan(command, NestedProtectedPaths())
    try:
        arguments, entries = mounts.arguments, planned(mounts)
        aside = [arguments[at + 2] for at, argument in enumerate(arguments) if argument == "--bind-fd"]
        writable = {f"/{STAGING}/{entry.staged}": path for path, entry in entries.items() if entry.staged is not None}
        return {writable[place] for place in aside}, {p for p, entry in entries.items() if entry.kind == "read_only"}
    finally:
        mounts.close()


STEPS = st.lists(st.sampled_from(["..", ".", "sub", "other", "link", "etc", "tmp"]), max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(steps=STEPS, absolute=st.booleans())
def test_a8_no_root_is_ever_derived_from_the_working_directory(place: Place, steps: list[str], absolute: bool) -> None:
    """A8: `..`, absolute, another conversation's directory, through a link."""
    (place.root / "sub").mkdir(exist_ok=True)
    (place.root.parent / "other").mkdir(exist_ok=True)
    if not (place.root / "link").exists():
        (place.root / "link").symlink_to("/etc")
    cwd = os.path.realpath(os.path.join("/" if absolute else place.root, *steps))
    writable, _ = opened(place.command("true", cwd=cwd))
    assert writable == {str(place.root)}


def test_read_only_binds_nothing_that_can_be_written(place: Place) -> None:
    command = place.command("true")
    writable, _ = opened(replace(command, confinement=replace(command.confinement, mode="read_only")))
    assert writable == set()
    assert list(place.root.iterdir()) == []


def test_every_protected_name_is_bound_read_only_and_nothing_stays(place: Place) -> None:
    """A5"""
    (place.root / ".git").mkdir()
    (place.root / ".mcp.json").touch()
    mounts = MountPlan(place.command("true"), NestedProtectedPaths())
    entries = planned(mounts)
    assert {f"{place.root}/{name}" for name in PROTECTED_NAMES} == {
        p for p, e in entries.items() if e.kind == "read_only"
    }
    assert len(list(place.root.iterdir())) == len(PROTECTED_NAMES)
    assert planned(mounts) == entries
    mounts.close()
    with pytest.raises(SandboxError, match="ended before"):
        mounts.plan()
    assert sorted(path.name for path in place.root.iterdir()) == [".git", ".mcp.json"]


async def test_a_command_cannot_rewrite_the_python_that_confines_it(
    place: Place, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Purpose of issue 7: a `.venv` in the workspace holds our own code; it cannot be changed, moved or replaced."""
    library = place.root / "deep" / "env" / "lib"
    library.mkdir(parents=True)
    (library / "ours.py").write_text("good")
    await sandbox.check()
    monkeypatch.setattr("sys.prefix", str(library.parent))
    script = "echo bad > deep/env/lib/ours.py; mv deep/env x; mv deep y; cat deep/env/lib/ours.py; echo z > deep/z"
    finished = await sandbox.run(place.command("sh", "-c", script), timeout_s=DEADLINE_S)
    assert finished.exit_code == 0, finished.output.text()
    assert finished.output.text().endswith("good")
    assert (library / "ours.py").read_text() == "good"
    assert (place.root / "deep" / "z").exists()


async def test_a_protected_link_can_be_neither_replaced_nor_changed_where_it_leads(
    place: Place, sandbox: Sandbox
) -> None:
    """A4: a link is a mount point like anything else, and so is what it leads to inside the root."""
    (place.root / "dot" / "claude").mkdir(parents=True)
    (place.root / "dot" / "claude" / "settings.json").write_text("{}")
    (place.root / ".claude").symlink_to("dot/claude")
    (place.root / ".codex").symlink_to("/etc")
    script = (
        "rm .claude; mv .codex x; mv dot x; echo 1 > .claude/settings.json; cat .claude/settings.json; echo y > dot/y"
    )
    finished = await sandbox.run(place.command("sh", "-c", script), timeout_s=DEADLINE_S)
    assert finished.exit_code == 0, finished.output.text()
    assert "{}" in finished.output.text()
    assert (place.root / ".claude").readlink() == Path("dot/claude")
    assert (place.root / ".codex").readlink() == Path("/etc")
    assert (place.root / "dot" / "claude" / "settings.json").read_text() == "{}"
    assert sorted(path.name for path in place.root.iterdir()) == [".claude", ".codex", "dot"]


def test_a_way_of_endless_links_refuses_the_command_and_leaves_nothing(place: Place) -> None:
    (place.root / ".claude").symlink_to(".claude")
    before = len(os.listdir("/proc/self/fd"))
    mounts = MountPlan(place.command("true"), NestedProtectedPaths())
    with pytest.raises(SandboxError, match="too many symbolic links"):
        mounts.plan()
    mounts.close()
    assert [path.name for path in place.root.iterdir()] == [".claude"]
    assert len(os.listdir("/proc/self/fd")) == before


def test_a7_a_root_that_is_a_link_is_refused(place: Place, tmp_path: Path) -> None:
    """A7: roots are canonical when they are made; one that is a link now was swapped."""
    link = tmp_path / "link"
    link.symlink_to(place.root)
    for root in (link, link / "."):
        confinement = Confinement(mode="workspace_write", writable_roots=(str(root),))
        with pytest.raises(SandboxError, match="root"):
            MountPlan(place.command("true", confinement=confinement), NestedProtectedPaths())


@pytest.mark.parametrize("root", ["/", "/proc", "/proc/sys", "/sys/kernel", "/dev", "/no/such/place"])
def test_the_system_itself_is_no_root(place: Place, root: str) -> None:
    with pytest.raises(SandboxError, match="writable root"):
        MountPlan(
            place.command("true", confinement=Confinement(mode="workspace_write", writable_roots=(root,))),
            NestedProtectedPaths(),
        )


class Flipping:
    """A thread that puts a link in the place of a directory and back, as fast as it can."""

    def __init__(self, path: Path, victim: Path) -> None:
        self._path, self._stop = path, threading.Event()
        self._away, self._link = path.with_name("away"), path.with_name("link")
        self._link.symlink_to(victim)
        self.flips = 0
        self._thread = threading.Thread(target=self._flip)

    def _flip(self) -> None:
        while not self._stop.is_set() or self.flips < 1000:
            os.rename(self._path, self._away)
            os.rename(self._link, self._path)
            os.rename(self._path, self._link)
            os.rename(self._away, self._path)
            self.flips += 1

    def __enter__(self) -> Flipping:
        self._thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._stop.set()
        self._thread.join()


async def test_a7_a_workspace_that_is_swapped_for_a_link_while_commands_start(
    place: Place, sandbox: Sandbox, tmp_path: Path
) -> None:
    """A7: each command is refused or works on the real directory; nothing is ever written where the link leads."""
    victim = tmp_path / "victim"
    victim.mkdir()
    await sandbox.check()
    ran = refused = 0
    with Flipping(place.root, victim) as flipping:
        for _ in range(40):
            try:
                command = place.command("sh", "-c", f"echo x > {place.root}/x; mkdir {place.root}/.git/y", cwd="/")
                await sandbox.run(command, timeout_s=DEADLINE_S)
                ran += 1
            except SandboxError:
                refused += 1
    assert flipping.flips >= 1000
    assert ran + refused == 40
    assert list(victim.iterdir()) == []
    assert not (place.root / ".git").exists()


async def test_a_git_directory_that_a_file_names_is_protected_too(place: Place, sandbox: Sandbox) -> None:
    """A4, A6: `.git` as a file; neither its directory nor what that lies in can be changed or moved."""
    real = place.root / "deep" / "store"
    (real / "hooks").mkdir(parents=True)
    (place.root / ".git").write_text("gitdir: deep/store\n")
    code = (
        "import os\n"
        "for act in (lambda: open('deep/store/hooks/x', 'w'), lambda: os.rename('deep', 'gone'),\n"
        "            lambda: os.rename('deep/store', 'deep/gone'), lambda: open('deep/fine', 'w')):\n"
        "    try: act()\n"
        "    except OSError as error: print(error.strerror)\n"
    )
    finished = await sandbox.run(place.python(code), timeout_s=DEADLINE_S)
    assert finished.output.text().splitlines() == ["Read-only file system", *["Device or resource busy"] * 2]
    assert list((real / "hooks").iterdir()) == []
    assert (place.root / "deep" / "fine").exists()
    assert not (place.root / "gone").exists()


@pytest.mark.parametrize("text", ["", "gitdir: /etc\n", "nonsense"])
def test_a_git_file_that_names_nothing_inside_changes_nothing(place: Place, text: str) -> None:
    (place.root / ".git").write_text(text)
    writable, _ = opened(place.command("true"))
    assert writable == {str(place.root)}


async def test_masks_hide_inside_and_outside_of_a_root(place: Place, sandbox: Sandbox, tmp_path: Path) -> None:
    """A14: a directory is empty, a file cannot be read, and neither can be written."""
    (place.root / "keys").mkdir()
    (place.root / "keys" / "id").write_text("canary")
    (place.root / "netrc").write_text("canary")
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "token").write_text("canary")
    masked = (str(place.root / "keys"), str(place.root / "netrc"), str(tmp_path / "away"))
    command = place.command("sh", "-c", "ls keys; cat netrc keys/id; echo x > keys/new; cat token", cwd=str(tmp_path))
    hidden = replace(command, cwd=str(place.root), confinement=replace(command.confinement, masked=masked))
    finished = await sandbox.run(hidden, timeout_s=DEADLINE_S)
    assert "canary" not in finished.output.text()
    assert not (place.root / "keys" / "new").exists()
    # A model that names a masked place as its directory does not bring it back.
    inside = replace(hidden, cwd=str(tmp_path / "away"))
    assert (
        "canary" not in (await sandbox.run(replace(inside, argv=("cat", "token")), timeout_s=DEADLINE_S)).output.text()
    )


async def test_a_workspace_inside_a_masked_directory_is_still_a_workspace(place: Place, sandbox: Sandbox) -> None:
    """Where our own data hold a workspace."""
    command = place.command("sh", "-c", "echo x > written; ls ..")
    masked = (str(place.root.parent),)
    (place.root.parent / "secret").write_text("canary")
    hidden = replace(command, confinement=replace(command.confinement, masked=masked))
    finished = await sandbox.run(hidden, timeout_s=DEADLINE_S)
    assert finished.output.text() == "workspace\n"
    assert (place.root / "written").read_text() == "x\n"


async def test_the_temporary_directory_is_private_and_the_workspace_below_it_is_seen(
    place: Place, sandbox: Sandbox, tmp_path: Path
) -> None:
    finished = await sandbox.run(place.command("sh", "-c", "echo x > /tmp/canary-file; ls /tmp /var/tmp /run"))
    assert "canary-file" in finished.output.text()
    assert not os.path.exists("/tmp/canary-file")
    again = await sandbox.run(place.command("ls", "/tmp"))
    assert "canary-file" not in again.output.text()


def confined(place: Place, script: str, **fields: tuple[str, ...]) -> Command:
    command = place.command("sh", "-c", script)
    return replace(command, confinement=replace(command.confinement, **fields))


async def run(sandbox: Sandbox, command: Command) -> str:
    finished = await sandbox.run(command, timeout_s=DEADLINE_S)
    return finished.output.text()


async def test_s1_a_protected_path_cannot_be_changed_moved_or_replaced(place: Place, sandbox: Sandbox) -> None:
    """S1: neither it, nor what it lies in; what lies beside it can be written."""
    config = place.root / ".config" / "tertulia" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("mine")
    script = """
        echo evil > .config/tertulia/config.toml; echo x > .config/tertulia/new; rm -rf .config/tertulia
        mv .config .c; mv .config/tertulia t; ln .config/tertulia/config.toml hard; mkdir -p .config/other
        cat .config/tertulia/config.toml; rm -r t
    """
    result = await run(sandbox, confined(place, script, protected_paths=(str(config.parent),)))
    assert result.endswith("mine")
    assert config.read_text() == "mine"
    assert sorted(path.name for path in place.root.iterdir()) == [".config"]
    assert sorted(path.name for path in (place.root / ".config").iterdir()) == ["other", "tertulia"]


@pytest.mark.parametrize("exists", ["", ".config", ".config/tertulia"])
async def test_s1_a_protected_path_that_is_missing_cannot_be_made(place: Place, sandbox: Sandbox, exists: str) -> None:
    """S1: at whatever point the way to it ends; and nothing is left when the command has ended."""
    (place.root / exists).mkdir(parents=True, exist_ok=True)
    path = place.root / ".config" / "tertulia" / "config.toml"
    script = (
        "mkdir -p .config/tertulia; echo evil > .config/tertulia/config.toml; rm -r .config; mv .config x; echo y > y"
    )
    await run(sandbox, confined(place, script, protected_paths=(str(path),)))
    assert not path.exists()
    left = sorted(str(path.relative_to(place.root)) for path in place.root.rglob("*"))
    assert left == sorted({exists, exists.split("/")[0], "y"} - {""})


async def test_s1_links_on_the_way_are_held_and_so_is_where_they_lead(place: Place, sandbox: Sandbox) -> None:
    """S1: a home whose `.config` is a link to a directory of dotfiles."""
    real = place.root / "dotfiles" / "config" / "tertulia"
    real.mkdir(parents=True)
    (real / "config.toml").write_text("mine")
    (place.root / ".config").symlink_to("dotfiles/config")
    (place.root / "dotfiles" / "deeper").symlink_to(real)
    script = """
        rm .config; mv .config x; mv dotfiles x; mv dotfiles/config x; ln -sfn /tmp .config; rm dotfiles/deeper
        echo evil > .config/tertulia/config.toml; cd dotfiles; echo evil > config/tertulia/config.toml; cat deeper/*l
    """
    paths = (str(place.root / ".config" / "tertulia"), str(place.root / "dotfiles" / "deeper" / "new"))
    assert (await run(sandbox, confined(place, script, protected_paths=paths))).endswith("mine")
    assert (place.root / ".config").readlink() == Path("dotfiles/config")
    assert (place.root / "dotfiles" / "deeper").readlink() == real
    assert (real / "config.toml").read_text() == "mine"
    assert sorted(path.name for path in real.iterdir()) == ["config.toml"]


async def test_s1_masks_hold_whatever_is_renamed(place: Place, sandbox: Sandbox) -> None:
    """S1: `mv ~/.local ~/.l`, and the next command reads what was masked by its path. Now it cannot be moved."""
    data, key = place.root / ".local" / "share" / "ours", place.root / ".netrc"
    data.mkdir(parents=True)
    (data / "serve.token").write_text("canary")
    key.write_text("canary")
    masked = (str(data), str(key), str(place.root / ".aws" / "credentials"))
    await run(sandbox, confined(place, "mv .local .l; mv .netrc n; rm -r .local/share; mkdir .aws", masked=masked))
    script = "cat .l/share/ours/* .local/share/ours/* n .netrc; echo x > .local/share/ours/x; echo y > .local/y"
    assert "canary" not in await run(sandbox, confined(place, script, masked=masked))
    assert (data / "serve.token").read_text() == key.read_text() == "canary"
    assert sorted(path.name for path in place.root.iterdir()) == [".local", ".netrc"]
    assert (place.root / ".local" / "y").exists()


async def test_a_masked_file_reads_as_empty(place: Place, sandbox: Sandbox) -> None:
    """S9: a tool that looks for its settings finds none, and does not fail."""
    (place.root / ".npmrc").write_text("canary")
    assert await run(sandbox, confined(place, "cat .npmrc && echo read", masked=(f"{place.root}/.npmrc",))) == "read\n"


async def test_a_root_below_a_mask_in_a_root_is_seen_and_writable(place: Place, sandbox: Sandbox) -> None:
    """S1: a worktree in our own data, below a home that is a workspace too."""
    inner = place.root / "data" / "worktrees" / "one"
    inner.mkdir(parents=True)
    (place.root / "data" / "secret").write_text("canary")
    command = confined(place, "ls data data/worktrees; cat data/secret; echo x > data/worktrees/one/x; echo y > data/y")
    roots = (str(place.root), str(inner))
    confinement = replace(command.confinement, writable_roots=roots, masked=(f"{place.root}/data",))
    result = await run(sandbox, replace(command, confinement=confinement))
    assert "canary" not in result
    assert "worktrees" in result
    assert (inner / "x").exists()
    assert sorted(path.name for path in inner.iterdir()) == ["x"]
    assert sorted(path.name for path in (place.root / "data").iterdir()) == ["secret", "worktrees"]


def test_what_comes_and_goes_refuses_the_command(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2: and leaves nothing."""
    root = os.open(place.root, os.O_PATH)
    stubs: dict[str, Stub] = {}
    collected = GuardedMounts({str(place.root): root}, stubs)
    try:
        (place.root / "file").touch()
        monkeypatch.setattr(mount_plan, "hold_stub", lambda *arguments, **options: None)
        monkeypatch.setattr(os.path, "lexists", lambda path: True)
        with pytest.raises(SandboxError, match="changed while the command was started"):
            collected.protect(f"{place.root}/missing")
        with pytest.raises(SandboxError, match="changed while the command was started"):
            collected._folder(f"{place.root}/file")
        assert stubs == {}
    finally:
        collected.close()
        os.close(root)
    assert [path.name for path in place.root.iterdir()] == ["file"]
