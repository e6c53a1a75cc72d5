"""A switchable tool and a preference are added to a copy of the package, with as few edits as CONTRIBUTING.md says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import tertulia

SOURCE = Path(tertulia.__file__).parent

TOOL = '''
"""`clock`: the model asks for the time."""

from typing import Any

from tertulia.protocol.tool_spec import ToolSpec
from tertulia.tools.tool import CallContext, Outcome, Result


class Clock:
    """A tool that can be switched off."""

    spec = ToolSpec.define("clock", "Tell the time.", {"type": "object", "properties": {}})
    parallel_safe = True
    read_only = True

    def check(self, arguments: Any, call: CallContext) -> None:
        """There is nothing to refuse."""

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        return Result("noon")
'''

ROW = """    ConversationField(
        name="include_clock_tool",
        kind=Switch(("clock",), "include_clock_tool"),
        doc="whether it has `clock`",
        setting="likewise for `clock`",
        narrows=True,
    ),
"""
PREFERENCE = """    ConversationField(
        name="site_kind", kind=Words(("shared", "worktree")), doc="where it works", setting="likewise", default="shared"
    ),
"""

TABLE = ("protocol/conversation_fields.py", ')\n"""All rows, in the order in which narrowed rights are reported."""')
SETTINGS = ("session/settings/settings.py", "    include_conv_tools: bool | None = None\n")
KEYWORDS = ("session/settings/conversation_fields.py", "    include_conv_tools: bool | None\n")
TERMS = ("conversation/terms.py", "    agent: Agent | None = None\n")
IMPORTS = ("session/members.py", "from tertulia.tools.web_search")
MEMBERS = ("session/members.py", "WebSearch(), ")

Edits = dict[tuple[str, str], str]

SWITCH_EDITS: Edits = {
    TABLE: ROW,
    IMPORTS: "from tertulia.tools.clock import Clock\n",
    MEMBERS: "Clock(), ",
    SETTINGS: "    include_clock_tool: bool | None = None\n",
    KEYWORDS: "    include_clock_tool: bool | None\n",
}
"""What is put before which text: the row, the line where tools are named, and two spellings for type checkers."""

PREFERENCE_EDITS: Edits = {
    TABLE: PREFERENCE,
    SETTINGS: "    site_kind: Literal['shared', 'worktree'] = 'shared'\n",
    KEYWORDS: "    site_kind: Literal['shared', 'worktree'] | None\n",
    TERMS: "    site_kind: Any = None\n",
}
"""A value that narrows nothing has one spelling more: where the code that uses it reads it."""

SWITCH_PROGRAM = """
import asyncio, json, pathlib, tertulia
from tertulia.session.settings.settings import load_settings
from tertulia.testing import ScriptedModel, call, say

def names(conversation):
    return [tool.name for tool in conversation.tools()]

async def main():
    child = {"user_instruction": "go", "internal_tools": {"include_clock_tool": False}}
    model = ScriptedModel([say("", call("conv_create", child)), "child", "done"])
    async with tertulia.Session.start(tertulia.Settings(model=model)) as session:
        assert "clock" in names(session.root)
        await session.root.message("delegate")
        assert "clock" not in names(session.conversations()[-1])
        await session.root.set_context(include_clock_tool=False)
        assert "clock" not in names(session.root)
        assert (await session.root.context()).tools_prefs["include_clock_tool"] is False
        await session.root.set_context(include_clock_tool=None)
        assert "clock" in names(session.root)
        try:
            await session.root.set_context(include_clock_tool="no")
        except tertulia.errors.InvalidParamsError as error:
            assert "include_clock_tool" in error.message
        else:
            raise AssertionError("a text was taken for a switch")
    async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel(), include_clock_tool=False)) as session:
        asked = await session.open(include_clock_tool=True)
        assert "clock" not in names(asked)
        [cut] = (await asked.context()).narrowed
        assert (cut.field, cut.asked, cut.given, cut.because) == ("include_clock_tool", True, False, "session")
    project = pathlib.Path("project/.tertulia")
    project.mkdir(parents=True)
    (project / "config.toml").write_text("include_clock_tool = false")
    loaded = load_settings(cwd=project.parent, environ={"HOME": str(pathlib.Path.cwd() / "home")})
    assert loaded.settings.rights.allows_tool("clock") is False
    assert loaded.provenance["include_clock_tool"].endswith("config.toml")

asyncio.run(main())
"""

PREFERENCE_PROGRAM = """
import asyncio, tertulia
from tertulia.testing import ScriptedModel

async def main():
    async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel(), site_kind="worktree")) as session:
        def held(conversation):
            return session.parts.conversations.find(conversation.id).terms.site_kind
        mine = await session.open(site_kind="shared")
        assert (held(session.root), held(mine)) == ("worktree", "shared")
        await mine.set_context(title="kept")
        assert held(mine) == "shared"
        await mine.set_context(site_kind=None)
        assert held(mine) == "worktree"
        session_id = session.id
    async with tertulia.Session.resume(session_id, tertulia.Settings(model=ScriptedModel())) as session:
        assert [held(conversation) for conversation in session.conversations()] == ["worktree", "worktree"]
        try:
            await session.open(site_kind="nowhere")
        except tertulia.errors.InvalidParamsError as error:
            assert error.message == "site_kind must be one of shared, worktree, not 'nowhere'", error.message
        else:
            raise AssertionError("a word was taken that there is not")

asyncio.run(main())
"""


def run_changed(folder: Path, edits: Edits, program: str) -> None:
    """Run the program against a copy of the package that has these edits."""
    copy = folder / "src" / "tertulia"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "tools" / "clock.py").write_text(TOOL)
    for (path, before), new in edits.items():
        text = (copy / path).read_text(encoding="utf-8")
        assert text.count(before) == 1, f"{path} has {before!r} {text.count(before)} times"
        (copy / path).write_text(text.replace(before, new + before), encoding="utf-8")
    work = folder / "work"
    work.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(copy.parent), "HOME": str(folder / "home")}
    for name in ("TERTULIA_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        environment.pop(name, None)
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, check=False, cwd=work, env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr


def test_a_switchable_tool_is_a_row_its_file_its_line_and_two_spellings(tmp_path: Path) -> None:
    """Rights, narrowing, inputs, preferences, `conv_create` and project files follow from the row."""
    run_changed(tmp_path, SWITCH_EDITS, SWITCH_PROGRAM)


def test_a_preference_is_a_row_and_three_spellings(tmp_path: Path) -> None:
    """Absent keeps, null resets, a wrong word is refused with those that there are, and a resume brings it back."""
    run_changed(tmp_path, PREFERENCE_EDITS, PREFERENCE_PROGRAM)
