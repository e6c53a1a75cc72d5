"""Which files and directories of a project the command of its hook names, and which of them it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.session.hooks.project_hook import ProjectHook, trust_store, trusted_hooks
from tests.tables import each_row

OUTSIDE, DIRECTORY = "can be changed by commands of a conversation", "is a directory, and only files are trusted"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".tertulia" / "hooks").mkdir(parents=True)
    (folder / ".tertulia" / "hooks" / "check.py").write_text("print('{}')\n")
    (folder / ".tertulia" / "link").symlink_to("../tools")
    (folder / "tools").mkdir()
    (folder / "tools" / "__main__.py").write_text("print('{}')\n")
    (folder / "Makefile").write_text("check:\n\ttrue\n")
    return folder


def hook_of(project: Path, *command: str) -> ProjectHook:
    entry = {"on": ["before_tool"], "command": list(command)}
    source = str(project / ".tertulia" / "config.toml")
    return ProjectHook(name="guard", entry=entry, source=source, folder=str(project))


@each_row(
    "command, reason",
    [
        (("make", "-C", "..", "check"), OUTSIDE),
        (("make", "-C..", "check"), OUTSIDE),
        (("make", "--directory=.."), OUTSIDE),
        (("make", "-f../Makefile"), OUTSIDE),
        (("python3", "../tools"), OUTSIDE),
        (("python3", "link"), OUTSIDE),
        (("env", "PYTHONPATH=../tools", "true"), OUTSIDE),
        (("python3", "hooks"), DIRECTORY),
        (("make", "-C", "."), DIRECTORY),
    ],
)
def test_c2_a_directory_of_the_project_is_no_program_of_a_hook(
    project: Path, command: tuple[str, ...], reason: str
) -> None:
    """A model writes the Makefile or `__main__.py` in it, and the hook runs outside any sandbox."""
    hook = hook_of(project, *command)
    home = project.parent / "home"
    with pytest.raises(InvalidParamsError, match=reason) as refused:
        hook.definition()
    assert refused.value.message.startswith(f"{hook.source}: hooks.guard: ")
    # Also where it was trusted before this was known.
    trust_store(home).trust(hook)
    usable, warnings = trusted_hooks([hook], {}, home)
    assert not usable
    assert [reason in warning for warning in warnings] == [True]


def test_c2_a_file_in_the_folder_of_ours_is_one(project: Path) -> None:
    hook = hook_of(project, "python3", "hooks/check.py", "-C/", "--level=2")
    assert hook.definition().command[1] == "hooks/check.py"
    assert hook.files == [str(project / ".tertulia" / "hooks" / "check.py")]
