"""Issue 24, 7: programs outside the sandbox do not see what is hidden, and nothing of it is changed for others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tertulia.events.clock import SystemClock
from tertulia.sandbox.launcher import launched_process
from tertulia.sandbox.runner import Command, Confinement
from tertulia.sandbox.sandbox import Sandbox
from tertulia.sandbox.tier import Namespace
from tests.deadlines import HANG_S


async def output_of(sandbox: Sandbox, folder: Path, script: str) -> str:
    command = Command(
        argv=("sh", "-c", script),
        cwd=str(folder),
        environment={"PATH": os.environ["PATH"]},
        confinement=Confinement(mode="danger_full_access"),
    )
    finished = await sandbox.run(command, timeout_s=HANG_S)
    return finished.output.text()


async def test_a_program_outside_the_sandbox_finds_nothing_where_places_are_hidden(tmp_path: Path) -> None:
    suite, results = tmp_path / "suite", tmp_path / "results"
    suite.mkdir()
    (suite / "check").write_text("secret")
    results.write_text("secret")
    look = "cat suite/check results /proc/*/root$PWD/suite/check /proc/*/root$PWD/results; ls -A suite; touch suite/new"
    sandbox = Sandbox(clock=SystemClock())
    try:
        assert "secret" in await output_of(sandbox, tmp_path, look)
        (suite / "new").unlink()
        if not await sandbox.hide([str(suite), str(results), str(tmp_path / "missing")]):
            pytest.skip("the kernel gives no namespace of mounts here")
        output = await output_of(sandbox, tmp_path, f"{look}; echo over > results; echo done > beside")
        assert "secret" not in output
        assert "Read-only file system" in output
    finally:
        await sandbox.close()
    assert (results.read_text(), (tmp_path / "beside").read_text()) == ("secret", "done\n")
    assert [path.name for path in suite.iterdir()] == ["check"]


async def test_where_there_is_no_namespace_that_is_said_and_nothing_is_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(launched_process._found, "does not", Namespace("", "the test has none"))
    (tmp_path / "file").write_text("plain")
    sandbox = Sandbox(clock=SystemClock())
    try:
        assert not await sandbox.hide([str(tmp_path / "file")])
        assert await output_of(sandbox, tmp_path, "cat file") == "plain"
    finally:
        await sandbox.close()
