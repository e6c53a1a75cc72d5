"""Masks that a project's file asks for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.session.settings.settings import LoadedSettings, load_settings


def loaded(tmp_path: Path, project: str, user: str = "") -> LoadedSettings:
    folder = Path(os.path.realpath(tmp_path))
    (folder / "work" / ".tertulia").mkdir(parents=True)
    (folder / "work" / ".tertulia" / "config.toml").write_text(project)
    (folder / ".config" / "tertulia").mkdir(parents=True)
    (folder / ".config" / "tertulia" / "config.toml").write_text(user)
    return load_settings(cwd=folder / "work", environ={"HOME": str(folder)})


def test_a_project_may_hide_more_of_itself(tmp_path: Path) -> None:
    """S9: beside what the user hides."""
    found = loaded(tmp_path, 'masks.add = ["keys", "deep/er"]', 'masks = {add = ["~/x"], unmask = ["~/.npmrc"]}')
    work = os.path.realpath(tmp_path / "work")
    assert found.settings.masks == {"add": ("~/x", f"{work}/keys", f"{work}/deep/er"), "unmask": ("~/.npmrc",)}
    assert found.warnings == []


@pytest.mark.parametrize("path", ["/usr", "~/.bashrc", "../other", "..", ".", ""])
def test_nothing_outside_and_not_all_of_it(tmp_path: Path, path: str) -> None:
    found = loaded(tmp_path, f'masks.add = ["{path}"]')
    assert found.settings.masks == {"add": ()}
    assert "masks.add" in found.warnings[0]


def test_a_project_shows_nothing(tmp_path: Path) -> None:
    """S9"""
    found = loaded(tmp_path, 'masks.unmask = ["~/.ssh"]')
    assert "unmask" not in found.settings.masks
    assert "masks.unmask is ignored" in found.warnings[0]


def test_nor_does_it_allow_a_home(tmp_path: Path) -> None:
    """S1"""
    found = loaded(tmp_path, "allow_home_workspace = true")
    assert not found.settings.allow_home_workspace
    assert "allow_home_workspace is ignored" in found.warnings[0]


@pytest.mark.parametrize("text", ["masks = 3", 'masks.add = "x"', "masks.add = [3]", 'masks.show = ["x"]'])
def test_what_is_no_mask_is_refused_with_the_file(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidParamsError, match=r"config\.toml: masks"):
        loaded(tmp_path, text)
