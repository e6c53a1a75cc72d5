"""`/undo` and `/diff`, as the screen and `--plain` run them, in a session of this process."""

from __future__ import annotations

from pathlib import Path

import pytest

import tertulia
from tertulia.errors import InvalidParamsError
from tertulia.protocol.ids import ConversationId
from tertulia.session.host import Host
from tertulia.terminal.local_port import LocalPort
from tertulia.terminal.undo_command import run_diff, run_undo
from tertulia.testing import ScriptedModel, call
from tertulia.view.undo_text import UndoWords, read_undo
from tests.sandbox.confined import need
from tests.terminal.conftest import MakeApp
from tests.terminal.screen import until, until_shown

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


def write(text: str) -> list[object]:
    """A message whose task writes this."""
    return [call("shell", {"command": ["sh", "-c", f"echo {text} > a; echo {text} > {text}"]}), f"wrote {text}"]


async def test_an_earlier_message_written_anew_brings_its_files_back_where_the_person_says_so(
    make_app: MakeApp, tmp_path: Path
) -> None:
    """26-1: edit-and-fork offers to bring the files back too; nothing happens to them without Alt+U."""
    work = tmp_path / "work"
    replies = [*write("one"), *write("two"), *write("three"), "fine", "so be it"]
    fields = {"checkpoints": True, "storage_policy": "full", "sandbox": "danger-full-access"}
    app = make_app(*replies, approval_policy="never", **fields)
    async with app.run_test(size=(120, 30)) as pilot:
        for text in ("one", "two", "three"):
            await pilot.press(*text, "enter")
            await until_shown(app, f"wrote {text}")
            await until(lambda: not app.scene.board.task_owners)
        await pilot.press("escape", "escape")
        await until_shown(app, "Which message do you want to write anew?")
        await pilot.press("up", "enter")
        await until_shown(app, "Alt+U brings them back too; were changed since: a, three, two")
        await pilot.press("alt+u")
        await until_shown(app, "Alt+U leaves them; come back as they were then: a, three, two")
        assert sorted(path.name for path in work.iterdir()) == ["a", "one", "three", "two"]
        await pilot.press("!", "enter")
        await until_shown(app, "fine")
        await until_shown(app, "3 files came back; in root, /undo yes to ")
        assert {path.name: path.read_text() for path in work.iterdir()} == {"a": "one\n", "one": "one\n"}
        await until(lambda: not app.scene.board.task_owners)
        model = app.actions.port.session.parts.settings.model
        assert "wrote one" in str(model.requests[-1].request.chunks)
        assert "wrote two" not in str(model.requests[-1].request.chunks)
        # Without Alt+U the files stay as they are.
        app.scene.see(app.scene.board.root_id)
        await pilot.press("escape", "escape")
        await until_shown(app, "Which message do you want to write anew?")
        await pilot.press("up", "up", "enter")
        await until_shown(app, "Alt+U brings them back too; were changed since: a, one")
        await pilot.press("enter")
        await until_shown(app, "so be it")
        assert {path.name: path.read_text() for path in work.iterdir()} == {"a": "one\n", "one": "one\n"}


async def test_where_nothing_is_recorded_nothing_is_offered(make_app: MakeApp) -> None:
    app = make_app("one", "two", storage_policy="full")
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press(*"first", "enter")
        await until_shown(app, "one")
        await until(lambda: not app.scene.board.task_owners)
        await pilot.press("escape", "escape")
        await until_shown(app, "Which message do you want to write anew?")
        await pilot.press("enter")
        await until_shown(app, "Enter sends this in a fork")
        await pilot.press("alt+u", "enter")
        await until_shown(app, "two")
