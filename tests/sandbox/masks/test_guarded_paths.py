"""What is guarded, by name and on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.sandbox.masks.guarded_paths import GuardedPaths, guarded_paths, is_inside
from tests.tables import each_row

NAMED = """
.ssh .aws .gnupg .config/gcloud .kube .netrc .codex .claude .git-credentials .config/gh .npmrc
.docker/config.json .azure .claude.json .pgpass .my.cnf .bash_history .mozilla .config/google-chrome
.password-store .vault-token .config/rclone .s3cfg .gemini .config/opencode .local/share/keyrings .bitcoin
.Xauthority
"""
OURS = ("/etc/xdg-of-ana/tertulia", "/data/tertulia")


def of(home: str = "/home/ana", **settings: object) -> GuardedPaths:
    return guarded_paths([home], OURS, **settings)  # type: ignore[arg-type]


def paths(guarded: GuardedPaths) -> set[str]:
    return {mask.path for mask in guarded.masks}


def test_a14_our_own_folders_are_masked_where_variables_put_them_and_where_they_usually_are() -> None:
    """S1, A14: a run without the variables would obey what stands in the usual places."""
    assert {*OURS, "/home/ana/.config/tertulia", "/home/ana/.local/share/tertulia"} <= paths(of())
    assert all(mask.also_missing and mask.is_directory for mask in of().masks if mask.ours)


def test_s9_what_the_finding_named_is_masked() -> None:
    """S9, A14"""
    assert {f"/home/ana/{name}" for name in NAMED.split()} <= paths(of())


def test_s9_only_root_has_the_systems_secrets_masked() -> None:
    """S9: an ordinary user cannot read them anyway."""
    assert "/etc/shadow" not in paths(of())
    assert {"/etc/shadow", "/etc/gshadow", "/etc/ssl/private"} <= paths(of(is_root=True))


def test_every_home_of_a_user_is_guarded() -> None:
    guarded = guarded_paths(["/home/ana", "/root"], OURS)
    assert {"/home/ana/.ssh", "/root/.ssh", "/root/.config/tertulia"} <= paths(guarded)
    assert {"/home/ana/.bashrc", "/root/.bashrc"} <= {path.path for path in guarded.protected}


def test_a_user_may_add_and_unmask() -> None:
    """S9: one line for a private registry."""
    guarded = of(add=["~/notes", "/srv/keys"], unmask=["~/.npmrc", "/home/ana/.config/gh/"])
    assert {"/home/ana/notes", "/srv/keys"} <= paths(guarded)
    assert not paths(guarded) & {"/home/ana/.npmrc", "/home/ana/.config/gh"}
    # What tools run stays read-only, also where it can be seen again.
    assert "/home/ana/.npmrc" in {path.path for path in guarded.protected}


@each_row(
    ("name", "expected"),
    [
        ("~/.config/tertulia", "always masked"),
        ("/data/tertulia", "always masked"),
        ("~/.ssh/known_hosts", "name one of ~/.ssh"),
        ("~/.config", "name one of ~/.config/"),
        ("~/nothing", "tertulia doctor"),
    ],
)
def test_what_is_not_masked_by_itself_cannot_be_unmasked(name: str, expected: str) -> None:
    """S1: and our own files never."""
    with pytest.raises(InvalidParamsError, match=r"masks\.unmask") as refused:
        of(unmask=[name])
    assert expected in refused.value.message


def test_what_is_missing_is_handed_on_only_where_it_must_not_come_into_being(tmp_path: Path) -> None:
    """S1: and which of them would be files is told too."""
    (tmp_path / ".mozilla").mkdir()
    (tmp_path / ".config" / "i3").mkdir(parents=True)
    guarded = of(str(tmp_path))
    masked, protected = set(guarded.masked_paths()), set(guarded.protected_paths([str(tmp_path)]))
    assert {f"{tmp_path}/.mozilla", f"{tmp_path}/.ssh", f"{tmp_path}/.netrc", "/data/tertulia"} <= masked
    assert f"{tmp_path}/.librewolf" not in masked
    assert {f"{tmp_path}/.config/i3", f"{tmp_path}/.bashrc", f"{tmp_path}/.vim"} <= protected
    assert f"{tmp_path}/.config/sway" not in protected
    files = set(guarded.missing_files())
    assert {f"{tmp_path}/.netrc", f"{tmp_path}/.bashrc"} <= files
    assert not {f"{tmp_path}/.ssh", f"{tmp_path}/.vim", "/data/tertulia"} & files


def test_a_root_inside_a_protected_folder_was_chosen_by_the_user() -> None:
    guarded = of()
    assert "/home/ana/.config/nvim" not in guarded.protected_paths(["/home/ana/.config/nvim/lua"])
    assert "/home/ana/.config/nvim" in guarded.protected_paths(["/home/ana"])
    assert guarded.protection_over("/home/ana/.config/nvim/init.lua", ["/home/ana/.config/nvim"]) is None
    assert guarded.protection_over("/home/ana/.config/nvim/init.lua", ["/home/ana"]) is not None


def test_a_path_is_known_by_its_name_and_by_where_its_links_lead(tmp_path: Path) -> None:
    """S1: through a link, and where the masked folder is a link itself."""
    home = Path(os.path.realpath(tmp_path))
    (home / "dotfiles" / "ssh").mkdir(parents=True)
    (home / ".ssh").symlink_to("dotfiles/ssh")
    (home / "way").symlink_to(".ssh")
    (home / ".bashrc").symlink_to("dotfiles/bashrc")
    guarded = of(str(home))
    for path in (".ssh/id", "dotfiles/ssh/id", "way/id"):
        mask = guarded.mask_over(f"{home}/{path}")
        assert mask is not None, path
        assert mask.spelled == "~/.ssh"
    assert guarded.mask_over(f"{home}/dotfiles/other") is None
    assert guarded.protection_over(f"{home}/dotfiles/bashrc", [str(home)]) is not None


def test_a_failure_is_explained_by_the_mask_that_its_output_names(tmp_path: Path) -> None:
    """S9: the refusal names the mask and the line that takes it away."""
    (tmp_path / ".pgpass").touch()
    hint = of(str(tmp_path)).hint(("./migrate",), f"cannot log in: {tmp_path}/.pgpass is empty")
    assert hint is not None
    assert "~/.pgpass (PostgreSQL passwords) is masked" in hint
    assert 'masks.unmask = ["~/.pgpass"]' in hint


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        (("git", "push", "origin"), {"~/.git-credentials"}),
        (("bash", "-c", "make && git -C lib push"), {"~/.git-credentials"}),
        (("/usr/bin/npm", "install"), {"~/.npmrc"}),
        (("git", "status"), set()),
        (("grep", "npm", "file"), set()),
        (("bash", "-c", "echo $(npm install)"), set()),
        ((), set()),
    ],
)
def test_a_failure_is_explained_by_what_the_program_needs(tmp_path: Path, argv: tuple[str, ...], names: set) -> None:
    """S9: and a program that needs none of it is told nothing."""
    for name in (".git-credentials", ".npmrc"):
        (tmp_path / name).touch()
    hint = of(str(tmp_path)).hint(argv, "") or ""
    assert {name for name in ("~/.git-credentials", "~/.npmrc") if name in hint} == names


def test_what_is_not_there_explains_nothing(tmp_path: Path) -> None:
    assert of(str(tmp_path)).hint(("git", "push"), "~/.ssh") is None


def test_ours_is_never_offered(tmp_path: Path) -> None:
    """S1"""
    (tmp_path / ".config" / "tertulia").mkdir(parents=True)
    assert of(str(tmp_path)).hint(("cat",), f"{tmp_path}/.config/tertulia/config.toml") is None


def test_below_is_by_parts_of_the_path() -> None:
    assert is_inside("/a/b", "/a")
    assert is_inside("/a", "/a")
    assert is_inside("/a", "/")
    assert not is_inside("/ab", "/a")


def test_a_path_lies_in_what_the_kernel_would_find_it_in(tmp_path: Path) -> None:
    """Against the definition: spelled or resolved, it begins with a mask as that is spelled or resolved."""
    home = tmp_path / "home"
    for folder in ("real/.aws", "real/.config", "store/kube", "elsewhere/.ssh/keys"):
        (home / folder).mkdir(parents=True)
    (home / ".aws").symlink_to("real/.aws")
    (home / ".kube").symlink_to("store/kube")
    (home / ".ssh").symlink_to(home / "elsewhere/.ssh")
    (home / ".netrc").symlink_to("nowhere")
    (tmp_path / "door").symlink_to("home")
    (home / "loop").symlink_to("loop")
    guarded = guarded_paths([str(tmp_path / "door")], [f"{home}/ours/"], add=["~/loop", "~/store/"])
    names = [".aws", ".aws/x", "real/.aws/x", "real", ".kube/config", "store/kube", "store", "storehouse", ".netrc"]
    names += ["nowhere", ".ssh/keys/id", "elsewhere/.ssh", "elsewhere", ".npmrc", ".npmrc/x", "loop", "loop/x", "other"]
    names += ["ours", "ours/x", "oursx", "real/../.aws/x", "", ".config/gh/hosts"]
    for above in (home, tmp_path / "door"):
        for path in (f"{above}/{name}" for name in names):
            real = os.path.realpath(path)
            expected = (
                mask
                for mask in guarded.masks
                if is_inside(path, mask.path)
                or is_inside(real, mask.path)
                or is_inside(real, os.path.realpath(mask.path))
            )
            assert guarded.mask_over(path) == next(expected, None), path
