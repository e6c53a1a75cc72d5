"""`local_shell`: another spelling of `shell`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.patching import patch
from tests.tools.workbench import code, workbench


async def test_it_takes_what_the_provider_sends(tmp_path: Path) -> None:
    """S000-06, X-19: what a model says about environment and user has no effect."""
    async with workbench(tmp_path) as bench:
        (bench.root / "sub").mkdir()
        action = {
            "type": "exec",
            "command": ["bash", "-c", "pwd; echo ${LEAK:-clean}"],
            "env": {"LEAK": "leaked"},
            "user": "nobody",
            "working_directory": "sub",
            "timeout_ms": 5_000,
        }
        result = await bench.call("local_shell", action)
        assert result.success
        assert result.text.endswith(f"{bench.root}/sub\nclean\n")


async def test_what_is_left_out_may_be_null(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        nothing = {"working_directory": None, "timeout_ms": None, "env": None, "user": None}
        assert (await bench.call("local_shell", {"command": ["true"], **nothing})).success


async def test_a_patch_is_a_patch_here_too(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        text = patch("*** Add File: new", "+text")
        assert (await bench.call("local_shell", {"command": ["apply_patch", text]})).success
        assert (bench.root / "new").read_text() == "text\n"
        assert code(await bench.call("local_shell", {"command": ["apply_patch", "nonsense"]})) == "invalid_params"


@pytest.mark.parametrize("command", [[], [""], ["a\0b"]])
async def test_what_cannot_be_started_is_refused(tmp_path: Path, command: list[str]) -> None:
    async with workbench(tmp_path) as bench:
        assert code(await bench.call("local_shell", {"command": command})) == "invalid_params"
