"""Single places: protected or masked wherever they lie, through links, and where they do not exist yet."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from tertulia.errors import SandboxError
from tertulia.sandbox.mounts import guarded_mounts
from tertulia.sandbox.mounts.guarded_mounts import GuardedMounts
from tertulia.sandbox.mounts.stubs import Stub
from tertulia.sandbox.runner import Command
from tertulia.sandbox.sandbox import Sandbox
from tests.sandbox.confined import DEADLINE_S, Place


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
    said = await run(sandbox, confined(place, script, protected_paths=(str(config.parent),)))
    assert said.endswith("mine")
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
    left = sorted(str(each.relative_to(place.root)) for each in place.root.rglob("*"))
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
    said = await run(sandbox, replace(command, confinement=confinement))
    assert "canary" not in said
    assert "worktrees" in said
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
        monkeypatch.setattr(guarded_mounts, "hold_stub", lambda *arguments, **options: None)
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
