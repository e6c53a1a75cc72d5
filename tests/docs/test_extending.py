"""The pages for those who extend Tertulia: their examples run on what a user installs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deadlines import HANG_S
from tests.docs.pages import ROOT, program
from tests.wheel import unpacked

GUIDES = sorted((ROOT / "docs/extending").glob("*.md"))
each_guide = pytest.mark.parametrize("guide", GUIDES, ids=lambda page: page.name)


@pytest.mark.slow
@each_guide
def test_the_examples_of_a_guide_run_from_an_installed_wheel(guide: Path, tmp_path: Path) -> None:
    """S001-39: a documented example proves the way to extend; S001-31."""
    installed = unpacked(tmp_path)
    check = f"import tertulia; assert tertulia.__file__.startswith({str(installed)!r}), tertulia.__file__; "
    run = subprocess.run(
        [sys.executable, str(ROOT / "tests/docs/run_page.py"), guide.name],
        input=check + program(guide).lstrip("\n"),
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_there_are_guides() -> None:
    assert [guide.name for guide in GUIDES] == ["executors.md", "providers.md", "tools.md", "wires.md"]
