"""What a model reads of a command that it waited for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tertulia.errors import SandboxError, SandboxUnavailableError
from tertulia.sandbox.runner import Command, CommandResult, Output
from tertulia.tools.shell.shell import command_result
from tests.tools.workbench import code, workbench

SAID = Output(b"said\n", b"", 5)


def test_how_it_ended_stands_before_what_it_said() -> None:
    assert (
        command_result(CommandResult(0, "exited", SAID, 1.25), 10).text
        == "Exit code: 0\nWall time: 1.2 seconds\nOutput:\nsaid\n"
    )
    late = command_result(CommandResult(124, "timeout", SAID, 10), 10)
    assert "timed out after 10 s" in late.text
    limited = command_result(CommandResult(137, "killed", SAID, 1, "memory_bytes"), 10)
    assert "the limit memory_bytes" in limited.text
    cut = command_result(CommandResult(0, "exited", Output(b"a", b"z", 1_000), 1), 10)
    assert "Total output: 1,000 bytes" in cut.text
    assert (late.success, limited.success, cut.success, cut.truncated) == (False, False, True, True)


class NoSandbox:
    """A runner that cannot run anything."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def check(self) -> Any:
        raise self.error

    async def start(self, command: Command, on_output: Any = None) -> Any:
        raise self.error

    async def run(self, command: Command, *, timeout_s: float | None = None, on_output: Any = None) -> Any:
        raise self.error

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("error", [SandboxUnavailableError("install bubblewrap"), SandboxError("a root was swapped")])
async def test_without_a_sandbox_nothing_runs_and_the_model_is_told_why(tmp_path: Path, error: SandboxError) -> None:
    """S002-51: every tool that needs one says the same; nothing has begun."""
    async with workbench(tmp_path, runner=NoSandbox(error)) as bench:
        (bench.root / "a.png").touch()
        calls: list[tuple[str, Any]] = [
            ("shell", {"command": ["true"]}),
            ("local_shell", {"command": ["true"]}),
            ("exec_command", {"cmd": "true"}),
            ("view_image", {"path": "a.png"}),
        ]
        for name, arguments in calls:
            result = await bench.call(name, arguments)
            assert code(result) == error.code
            assert error.message in result.text
        assert bench.events == []
        text = "*** Begin Patch\n*** Add File: new\n+text\n*** End Patch"
        assert code(await bench.call("apply_patch", text)) == error.code
        assert not (bench.root / "new").exists()
