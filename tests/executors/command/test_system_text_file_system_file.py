"""A text as a file that is nowhere."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tertulia.executors.command.system_text_file import memory_file


def test_another_program_can_read_it_more_than_once_and_not_afterwards() -> None:
    """X-63"""
    with memory_file("told\ud800 ü") as path:
        for _ in range(2):
            assert subprocess.check_output(["/bin/cat", path]).decode() == "told? ü"
        assert not Path(path).resolve().exists()
    assert not Path(path).exists()
