"""A patch inside a shell command."""

from __future__ import annotations

from tertulia.tools.patch.command_detection import PatchCommand, patch_in_command
from tertulia.tools.patch.text import parse_patch
from tests.tables import each_row
from tests.tools.patching import patch

PATCH = patch("*** Add File: a", "+$x `y`") + "\n"


@each_row(
    ("argv", "workdir"),
    [
        (["apply_patch", PATCH], None),
        (["applypatch", PATCH], None),
        (["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}EOF"], None),
        (["bash", "-c", f'applypatch <<"PATCH"\n{PATCH}PATCH\n'], None),
        (["/bin/sh", "-c", f"\napply_patch<<EOF\n{PATCH}EOF\n\n"], None),
        (["bash", "-lc", f"cd 'a b' && apply_patch <<'EOF'\n{PATCH}EOF\n"], "a b"),
    ],
)
def test_a_patch_is_found(argv: list[str], workdir: str | None) -> None:
    assert patch_in_command(argv) == PatchCommand(PATCH, workdir)
    assert parse_patch(PATCH)


@each_row(
    "argv",
    [
        [],
        ["apply_patch"],
        ["apply_patch", PATCH, "x"],
        ["ls", PATCH],
        ["bash", "-x", f"apply_patch <<'EOF'\n{PATCH}EOF"],
        ["bash", "-lc", "ls"],
        ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}EOT"],
        ["bash", "-lc", f"apply_patch <<'EOF\n{PATCH}EOF"],
        ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}EOF\nrm x"],
        ["bash", "-lc", f"rm x && apply_patch <<'EOF'\n{PATCH}EOF"],
        ["bash", "-lc", f"cd a; rm x && apply_patch <<'EOF'\n{PATCH}EOF"],
        ["bash", "-lc", f"cd $(rm x) && apply_patch <<'EOF'\n{PATCH}EOF"],
        ["bash", "-lc", f"cd - && apply_patch <<'EOF'\n{PATCH}EOF"],
        ["bash", "-lc", f"cd a && cd b && apply_patch <<'EOF'\n{PATCH}EOF"],
    ],
)
def test_every_other_command_is_none(argv: list[str]) -> None:
    assert patch_in_command(argv) is None
