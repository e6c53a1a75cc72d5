"""What the tools of a session work with."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tertulia.errors import InvalidParamsError, SandboxError
from tertulia.policy.shell_environment import ShellEnvironment
from tertulia.protocol.tool_events import ApprovalFile
from tertulia.sandbox.masks.guarded_paths import guarded_paths
from tertulia.sandbox.runner import Confinement
from tertulia.tools.command_environment import describe_confinement, describe_environment_policy
from tests.tools.calling import call
from tests.tools.patching import patch, snapshot
from tests.tools.workbench import allow, code, deny, workbench

FILE = ApprovalFile("a", "update", 1, 1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.sampled_from(["..", ".", "a", "/", "/etc", "//x", "~"]), max_size=5).map("/".join))
async def test_no_directory_that_anybody_names_becomes_writable(tmp_path_factory, workdir: str) -> None:  # type: ignore[no-untyped-def]
    """A8: roots are the session's, whatever the call says."""
    async with workbench(tmp_path_factory.mktemp("w")) as bench:
        context = replace(bench.context(call("shell")), cwd=os.path.join(bench.root, workdir))
        assert bench.place.confinement(context.rights).writable_roots == (str(bench.root),)
        assert os.path.isabs(bench.place.directory(workdir, context))


async def test_a_directory_with_a_nul_is_refused(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        with pytest.raises(InvalidParamsError):
            bench.place.directory("a\0", bench.context(call("shell")))


async def test_a_program_of_ours_that_does_not_end_is_an_error(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        context = bench.context(call("apply_patch"))
        hurried = replace(bench.place, timeout_s=0.2)
        with pytest.raises(SandboxError, match="timeout"):
            await hurried.confined(("sleep", "600"), b"", 100, context)
        with pytest.raises(SandboxError, match="stopped"):
            await bench.place.confined((sys.executable, "-I", "-S", "-c", "print('x' * 1000)"), b"", 100, context)
        assert await bench.place.confined(("cat",), b"text", 100, context) == b"text"


async def test_a_patch_is_bound_to_its_text_and_its_directory(tmp_path: Path) -> None:
    """B5"""
    async with workbench(tmp_path, lambda _: {"decision": "allow", "scope": "session"}) as bench:
        bench.with_rights("untrusted")
        context = bench.context(call("apply_patch"))
        await bench.place.approve_patch("text", (FILE,), context)
        await bench.place.approve_patch("text", (FILE,), context)
        assert len(bench.asked) == 1
        await bench.place.approve_patch("other", (FILE, FILE), context)
        await bench.place.approve_patch("text", (FILE,), replace(context, cwd="/etc"))
        assert [request.title.split(" in ")[0] for request in bench.asked] == [
            "apply a patch to 1 file",
            "apply a patch to 2 files",
            "apply a patch to 1 file",
        ]


async def test_a_patch_that_is_denied_leaves_everything_as_it_was(tmp_path: Path) -> None:
    text = "*** Begin Patch\n*** Add File: new\n+text\n*** End Patch"
    async with workbench(tmp_path, deny) as bench:
        bench.with_rights("untrusted")
        assert code(await bench.call("apply_patch", text)) == "approval_denied"
        assert not (bench.root / "new").exists()
        bench.answer = allow
        assert (await bench.call("apply_patch", text)).success
        assert (bench.root / "new").exists()


def test_confinements_and_environments_are_spelled_in_one_way() -> None:
    """B5: what differs is spelled differently; no value of a variable is shown."""
    spelled = [
        describe_confinement(Confinement(mode="read_only", writable_roots=("/w",))),
        describe_confinement(Confinement(mode="workspace_write", writable_roots=("/w", "/x"))),
        describe_confinement(Confinement(mode="workspace_write", writable_roots=("/w",), network=True)),
        describe_confinement(Confinement(mode="danger_full_access")),
    ]
    assert spelled == [
        "read-only, writable: nothing, network off",
        "workspace-write, writable: /w, /x, network off",
        "workspace-write, writable: /w, network on",
        "danger-full-access",
    ]
    assert describe_environment_policy(ShellEnvironment()) == "inherits core"
    policy = ShellEnvironment(
        inherit="all", set={"B": "secret", "A": "secret"}, exclude=("X*",), include_only=("*",),
        ignore_default_excludes=True,
    )  # fmt: skip
    assert describe_environment_policy(policy) == (
        "inherits all; excluded X*; only *; set A, B; variables called like secrets included"
    )


@pytest.mark.parametrize(
    "lines",
    [
        ("*** Add File: sub/.git/hooks/pre-commit", "+x"),
        ("*** Add File: .GIT/config", "+x"),
        ("*** Add File: new/.claude/settings.json", "+x"),
        ("*** Add File: a/.Mcp.JSON", "+x"),
        ("*** Delete File: sub/.git/config",),
        ("*** Update File: sub/.git/config", "@@", "-old", "+new"),
        ("*** Update File: text", "*** Move to: deep/.vscode/tasks.json", "@@", "-old", "+new"),
        ("*** Add File: fine", "+x", "*** Add File: sub/.idea/x", "+x"),
    ],
)
async def test_no_patch_reaches_a_protected_name_at_any_depth(tmp_path: Path, lines: tuple[str, ...]) -> None:
    """A4, A5, A23: refused whole and before anybody is asked; the tree is the same to the byte."""
    async with workbench(tmp_path, allow) as bench:
        (bench.root / "sub" / ".git").mkdir(parents=True)
        (bench.root / "sub" / ".git" / "config").write_text("old\n")
        (bench.root / "text").write_text("old\n")
        before = snapshot(bench.root)
        for arguments in (patch(*lines), {"command": ["apply_patch", patch(*lines)]}):
            result = await bench.call("apply_patch" if isinstance(arguments, str) else "shell", arguments)
            assert code(result) == "invalid_params"
            assert "protected" in result.text
        assert (snapshot(bench.root), bench.events) == (before, [])


async def test_a_patch_inside_a_protected_directory_is_refused_too(tmp_path: Path) -> None:
    """A23: by the directory it is applied in. Where a root itself lies is its user's choice."""
    async with workbench(tmp_path, allow) as bench:
        inside = bench.root / "sub" / ".git"
        inside.mkdir(parents=True)
        before = snapshot(bench.root)
        made = patch("*** Add File: config", "+x")
        fields = {"command": ["bash", "-c", f"cd sub/.git && apply_patch <<'EOF'\n{made}\nEOF\n"]}
        result = await bench.call("shell", fields)
        assert code(result) == "invalid_params"
        assert "protected" in result.text
        assert (snapshot(bench.root), bench.asked) == (before, [])
        bench.with_rights("on-request", writable_roots=(str(inside),))
        assert (await bench.call("shell", fields)).success
        assert (inside / "config").read_text() == "x\n"


async def test_with_full_access_nothing_is_protected(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        bench.with_rights("on-request", sandbox="danger_full_access")
        assert (await bench.call("apply_patch", patch("*** Add File: .vscode/tasks.json", "+x"))).success
        assert (bench.root / ".vscode" / "tasks.json").read_text() == "x\n"


@pytest.mark.parametrize("sandbox", ["workspace_write", "read_only"])
@pytest.mark.parametrize("workdir", ["/tmp", "/var/tmp", "/dev/shm", "/run", "/tmp/."])
async def test_s10_a_patch_to_a_place_that_does_not_last_is_refused(tmp_path: Path, workdir: str, sandbox: str) -> None:
    """S10: the model is told so; before, it read `Success` and the file was gone."""
    async with workbench(tmp_path) as bench:
        bench.with_rights("on-request", sandbox=sandbox)
        text = patch("*** Add File: s10-canary", "+x")
        result = await bench.call("shell", {"command": ["apply_patch", text], "workdir": workdir})
        assert code(result) == "invalid_params"
        assert "would not last" in result.text
        assert not os.path.lexists(f"{workdir}/s10-canary")


async def test_s10_a_workspace_in_tmp_lasts(tmp_path: Path) -> None:
    """S10: what counts is whether the place is a root, not what it is called."""
    async with workbench(tmp_path) as bench:
        result = await bench.call("apply_patch", patch("*** Add File: new", "+x"))
        assert result.success, result.text
        assert (bench.root / "new").read_text() == "x\n"


async def test_s1_a_patch_leaves_startup_files_alone_where_they_exist(tmp_path: Path) -> None:
    """S1: at any depth; one that is not there yet, in a project, is a file like any other."""
    async with workbench(tmp_path) as bench:
        (bench.root / "dotfiles").mkdir()
        (bench.root / "dotfiles" / ".bashrc").write_text("old\n")
        text = patch("*** Update File: dotfiles/.bashrc", "@@", "-old", "+new")
        result = await bench.call("apply_patch", text)
        assert code(result) == "invalid_params"
        assert "'.bashrc', which programs run by its name" in result.text
        assert (bench.root / "dotfiles" / ".bashrc").read_text() == "old\n"
        assert (await bench.call("apply_patch", patch("*** Add File: dotfiles/.zshrc", "+new"))).success


async def test_s1_a_patch_leaves_what_is_guarded_by_its_path_alone(tmp_path: Path) -> None:
    """S1, S9: masks and protected paths, existing or not; the refusal says why."""
    home = Path(os.path.realpath(tmp_path)) / "workspace"
    guarded = guarded_paths([str(home)], [str(home / "data")])
    async with workbench(tmp_path, guarded=guarded) as bench:
        (bench.root / ".bash_aliases").write_text("old\n")
        for name, why in [
            (".bash_profile", "a shell runs it"),
            ("bin/git", "come first in PATH"),
            (".npmrc", 'masks.unmask = ["~/.npmrc"]'),
            (".config/tertulia/config.toml", "Tertulia's own"),
            ("data/serve.token", "Tertulia's own"),
        ]:
            result = await bench.call("apply_patch", patch(f"*** Add File: {name}", "+x"))
            assert code(result) == "invalid_params", name
            assert why in msgspec.json.decode(result.text)["reason"], result.text
        assert {path.name for path in bench.root.iterdir()} == {".bash_aliases"}


@pytest.mark.parametrize("form", ["shell", "exec_command"])
async def test_s9_a_failure_names_the_mask_that_may_be_why(tmp_path: Path, form: str) -> None:
    """S9: one line away; and nothing is said where the command went well."""
    home = Path(os.path.realpath(tmp_path)) / "home"
    home.mkdir()
    (home / ".pgpass").write_text("canary")
    async with workbench(tmp_path, guarded=guarded_paths([str(home)], [])) as bench:
        for end, is_named in ((1, True), (0, False)):
            script = f"echo {home}/.pgpass: empty; exit {end}"
            fields = {"command": ["sh", "-c", script]} if form == "shell" else {"cmd": script}
            result = await bench.call(form, fields)
            assert ('masks.unmask = ["~/.pgpass"]' in result.text) is is_named, result.text
