"""`/undo` and `/diff`, as the screen and `--plain` run them, in a session of this process."""

from __future__ import annotations

from pathlib import Path

import pytest

import tertulia
from tertulia.errors import InvalidParamsError
from tertulia.protocol.ids import ConversationId
from tertulia.session.host import Host
from tertulia.terminal.local_port import LocalPort
from tertulia.terminal.undo_command import UndoWords, read_undo, run_diff, run_undo
from tertulia.testing import ScriptedModel, call
from tests.sandbox.confined import need

ROOT = ConversationId("root")


def test_the_words_behind_undo_are_read() -> None:
    assert read_undo("") == UndoWords()
    assert read_undo("yes force to 1a2b src/a b") == UndoWords(yes=True, force=True, to="1a2b", paths=("src/a", "b"))
    with pytest.raises(InvalidParamsError, match="to which checkpoint"):
        read_undo("yes to")


async def test_an_undo_is_shown_then_done_and_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("bubblewrap")
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path / "data"))
    work = tmp_path / "work"
    work.mkdir()
    model = ScriptedModel([call("shell", {"command": ["sh", "-c", "echo two > a"]}), "done"])
    settings = tertulia.Settings(model=model, cwd=str(work), checkpoints=True, approval_policy="never")
    host = Host(settings)
    port = LocalPort(host, session := await host.start(settings))
    try:
        await session.root.message("go")
        assert "+two" in await run_diff(port, ROOT, "")
        shown = await run_undo(port, ROOT, "")
        assert shown[0] == "a goes"
        assert "/undo yes does it" in shown
        assert (work / "a").exists()
        done = await run_undo(port, ROOT, "yes")
        assert done[0] == "a is gone"
        assert not (work / "a").exists()
        back = done[-1].removeprefix("/undo ").removesuffix(" takes this back")
        assert (await run_undo(port, ROOT, back))[0] == "a came back"
        with pytest.raises(InvalidParamsError):
            await run_diff(port, ROOT, "one two")
    finally:
        await host.close()
