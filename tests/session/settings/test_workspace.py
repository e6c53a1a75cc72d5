"""Which directories a session may work in, and what is guarded there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tertulia import Session
from tertulia.errors import InvalidParamsError
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.settings import Settings
from tertulia.session.settings.workspace import check_workspace, guarded_paths_of
from tertulia.testing import ScriptedModel
from tests.tables import each_row


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = Path(os.path.realpath(tmp_path)) / "people" / "ana"
    (path / "project").mkdir(parents=True)
    return path


def around(home: Path, **variables: str) -> Environment:
    return Environment.read({"HOME": str(home), **variables})


def refusal(settings: Settings, environment: Environment) -> str:
    with pytest.raises(InvalidParamsError) as refused:
        check_workspace(settings, environment)
    return refused.value.message


def test_a_home_is_no_workspace_unless_it_is_allowed(home: Path) -> None:
    """S1: the reason, and every way out."""
    message = refusal(Settings(cwd=str(home)), around(home))
    assert f"the workspace is your home directory ({home})" in message
    assert {"--allow-home-workspace", "read-only", "allow_home_workspace"} <= {
        *message.replace(",", " ").replace(")", " ").split()
    }
    check_workspace(Settings(cwd=str(home), allow_home_workspace=True), around(home))


@pytest.mark.parametrize("folder", ["..", "../..", "/"])
def test_nor_is_what_it_lies_in(home: Path, folder: str) -> None:
    """S1"""
    assert "home" in refusal(Settings(cwd=os.path.realpath(home / folder)), around(home))


def test_nor_through_a_link(home: Path) -> None:
    """S1: neither the workspace nor the home by another name."""
    link = home / "project" / "link"
    link.symlink_to(home)
    assert "home" in refusal(Settings(cwd=str(link)), around(home))
    assert "home" in refusal(Settings(cwd=str(home)), around(link))


def test_nor_is_it_a_writable_root(home: Path) -> None:
    """S1: --add-dir ~"""
    settings = Settings(cwd=str(home / "project"), writable_roots=[str(home / "project"), str(home)])
    assert "a writable root is your home" in refusal(settings, around(home))


@pytest.mark.parametrize("sandbox", ["workspace-write", "danger-full-access"])
def test_a_project_in_a_home_is_one(home: Path, sandbox: str) -> None:
    check_workspace(Settings(cwd=str(home / "project"), sandbox=sandbox), around(home))


def test_who_only_reads_may_be_at_home(home: Path) -> None:
    check_workspace(Settings(cwd=str(home), sandbox="read-only"), around(home))


@pytest.mark.parametrize("sandbox", ["read-only", "workspace-write", "danger-full-access"])
@pytest.mark.parametrize("folder", [".config/tertulia", ".local/share/tertulia/sessions"])
def test_our_own_folders_are_never_a_workspace(home: Path, folder: str, sandbox: str) -> None:
    """S1: with no flag at all."""
    (home / folder).mkdir(parents=True)
    settings = Settings(cwd=str(home / folder), sandbox=sandbox, allow_home_workspace=True)
    assert "Tertulia's own" in refusal(settings, around(home))


def test_a_masked_folder_is_one_only_where_it_is_unmasked(home: Path) -> None:
    """S9: the refusal names the mask and the line."""
    (home / ".aws" / "sso").mkdir(parents=True)
    settings: dict[str, Any] = {"cwd": str(home / ".aws" / "sso")}
    assert 'masks.unmask = ["~/.aws"]' in refusal(Settings(**settings), around(home))
    check_workspace(Settings(**settings, masks={"unmask": ["~/.aws"]}), around(home))


def test_variables_say_where_our_folders_are(home: Path) -> None:
    """S1"""
    environment = around(home, XDG_CONFIG_HOME=f"{home}/c", TERTULIA_HOME=f"{home}/d")
    ours = {mask.path for mask in guarded_paths_of(Settings(), environment).masks if mask.ours}
    assert {f"{home}/c/tertulia", f"{home}/d", f"{home}/.config/tertulia", f"{home}/.local/share/tertulia"} <= ours


@each_row(
    ("masks", "expected"),
    [
        ({"add": "~/x"}, "masks.add must be a list"),
        ({"add": ["x"]}, "must begin with / or ~/"),
        ({"add": ["/"]}, "more than a mask can cover"),
        ({"add": ["~/."]}, "more than a mask can cover"),
        ({"hide": []}, "there are add, unmask"),
        ([], "must be a table"),
    ],
)
def test_masks_are_checked_when_the_settings_are_made(masks: Any, expected: str) -> None:
    with pytest.raises(InvalidParamsError, match="masks") as refused:
        Settings(masks=masks)
    assert expected in refused.value.message


async def test_a_refused_workspace_leaves_nothing_behind(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S1: no session, no folder, no file."""
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TERTULIA_HOME", str(home / ".local" / "share" / "tertulia"))
    before = sorted(home.rglob("*"))
    with pytest.raises(InvalidParamsError, match="home directory"):
        async with Session.start(Settings(model=ScriptedModel(["hi"]), cwd=str(home))):
            raise AssertionError
    assert sorted(home.rglob("*")) == before


async def test_a_resumed_session_is_refused_there_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S1: begun with the flag, resumed without it; its record stays as it was."""
    monkeypatch.setenv("HOME", str(home))
    model = ScriptedModel(["hi"])
    async with Session.start(Settings(model=model, cwd=str(home), allow_home_workspace=True)) as session:
        await session.root.message("hello")
    stored = Path(os.environ["TERTULIA_HOME"]) / "sessions"
    before = {path: path.read_bytes() for path in stored.rglob("*.db")}
    assert before
    with pytest.raises(InvalidParamsError, match="home directory"):
        async with Session.resume(session.id, Settings(model=model)):
            raise AssertionError
    assert {path: path.read_bytes() for path in stored.rglob("*.db")} == before
