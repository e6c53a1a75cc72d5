"""From rights to confinements."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tertulia.events.clock import SystemClock
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.worktree import OwnWorktree
from tertulia.sandbox.confine import GuardedRunner, confine
from tertulia.sandbox.masks.guarded_paths import GuardedPaths, Mask, ProtectedPath, guarded_paths
from tertulia.sandbox.runner import Command
from tertulia.sandbox.sandbox import Sandbox
from tertulia.session.settings.settings import Settings
from tests.sandbox.confined import DEADLINE_S, Place, need


def test_without_roots_the_workspace_is_the_one_that_may_be_written() -> None:
    confinement = confine(
        Settings().rights,
        "/work",
        guarded=GuardedPaths(
            (Mask("/secret", "/secret", "a key"),), (ProtectedPath("/work/.bashrc", "a shell runs it"),)
        ),
    )
    assert confinement.mode == "workspace_write"
    assert confinement.writable_roots == ("/work",)
    assert confinement.masked == ("/secret",)
    assert confinement.protected_paths == ("/work/.bashrc",)
    assert not confinement.network


def test_named_roots_replace_it() -> None:
    """A8: and no directory that anybody works in is added."""
    rights = replace(Settings().rights, writable_roots=("/a", "/b"), network=True)
    confinement = confine(rights, "/work", guarded=GuardedPaths())
    assert confinement.writable_roots == ("/a", "/b")
    assert confinement.network


@pytest.mark.parametrize("mode", ["read_only", "danger_full_access"])
def test_the_mode_is_that_of_the_rights(mode) -> None:
    assert confine(replace(Settings().rights, sandbox=mode), "/work", guarded=GuardedPaths()).mode == mode


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("act", ["run", "start"])
async def test_s1_a_confined_server_does_not_read_our_files(tmp_path: Path, tier: str, act: str) -> None:
    """S1, S9: an MCP server in a sandbox obeys the same list, though its definition says nothing of it."""
    need(tier)
    place = Place(tmp_path)
    # In the workspace: what lies elsewhere in /tmp is not seen in any case.
    ours, secret = place.root / "data", place.root / "home" / ".npmrc"
    for path in (ours / "serve.token", secret):
        path.parent.mkdir()
        path.write_text("canary")
    bare = Sandbox(tier=tier, clock=SystemClock())  # type: ignore[arg-type]
    runner = GuardedRunner(bare, guarded_paths([str(place.root / "home")], [str(ours)]))
    command = place.command("sh", "-c", f"cat {ours}/serve.token {secret}; echo read")
    try:
        assert (await runner.check()).tier == tier
        if act == "run":
            finished = await runner.run(command, timeout_s=DEADLINE_S)
        else:
            finished = await (await runner.start(command)).wait(DEADLINE_S)
        assert finished is not None
        assert "read" in finished.output.text()
        assert "canary" not in finished.output.text()
        control = await bare.run(command, timeout_s=DEADLINE_S)
        assert control.output.text().count("canary") == 2
    finally:
        await runner.close()


def worktree_in(home: str, repository: str) -> OwnWorktree:
    path = f"{home}/worktrees/one"
    return OwnWorktree(ConversationId("one"), repository, repository, f"{repository}/.git", path, "tertulia/one", "c0")


def test_in_a_worktree_its_places_take_the_place_of_the_workspace() -> None:
    """Issue 20, 8: the caller's workspace is not writable there."""
    worktree = worktree_in("/home/data", "/repo")
    inside = confine(Settings().rights, "/repo/sub", guarded=GuardedPaths(), worktree=worktree)
    assert inside.writable_roots == ("/home/data/worktrees/one/sub",)
    assert inside.shown == ("/home/data/worktrees/one", "/repo/.git")
    top = "/home/data/worktrees/one"
    for roots, places in ((("/other", "/repo/a"), ("/other", f"{top}/a")), (("/",), (top,)), (("/repo",), (top,))):
        rights = replace(Settings().rights, writable_roots=roots)
        assert confine(rights, "/repo", guarded=GuardedPaths(), worktree=worktree).writable_roots == places


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("mode", ["workspace_write", "read_only"])
async def test_only_the_commands_of_its_conversation_see_a_worktree(tmp_path: Path, tier: str, mode: str) -> None:
    """Issue 20, 8: it lies in a folder that is masked, and no other worktree and nothing else there is seen."""
    need(tier)
    home, repository = tmp_path / "home", tmp_path / "repo"
    for name in ("one", "two"):
        (home / "worktrees" / name).mkdir(parents=True)
        (home / "worktrees" / name / "file").write_text(f"content of {name}")
    (home / "secret").write_text("canary")
    (repository / ".git").mkdir(parents=True)
    (repository / ".git" / "HEAD").write_text("ref: refs/heads/main")
    guarded = guarded_paths([str(tmp_path / "user")], [str(home)])
    rights = replace(Settings().rights, sandbox=mode)
    worktree = worktree_in(str(home), str(repository))
    sandbox = Sandbox(tier=tier, clock=SystemClock())  # type: ignore[arg-type]

    async def output(script: str, place: OwnWorktree | None, cwd: str) -> str:
        confinement = confine(rights, str(repository), guarded=guarded, worktree=place)
        argv, variables = ("sh", "-c", f"{script}; true"), {"PATH": "/usr/bin:/bin"}
        command = Command(argv=argv, cwd=cwd, confinement=confinement, environment=variables)
        return (await sandbox.run(command, timeout_s=DEADLINE_S)).output.text()

    try:
        own = await output("cat file; echo new > made; cat made", worktree, worktree.path)
        assert "content of one" in own
        assert ("new" in own.replace("cannot create", "")) is (mode == "workspace_write")
        assert "refs/heads/main" in await output(f"cat {repository}/.git/HEAD", worktree, worktree.path)
        others = f"cat {home}/secret {home}/worktrees/two/file; echo x > {home}/worktrees/two/file"
        seen = await output(others, worktree, worktree.path)
        assert "canary" not in seen
        assert "content of two" not in seen
        await output(f"echo x > {repository}/.git/config; echo x > {repository}/file", worktree, worktree.path)
        assert "content of one" not in await output(f"cat {worktree.path}/file", None, str(repository))
    finally:
        await sandbox.close()
    assert (home / "worktrees" / "two" / "file").read_text() == "content of two"
    assert {path.name for path in repository.iterdir()} == {".git"}
    assert {path.name for path in (repository / ".git").iterdir()} == {"HEAD"}
