"""The page about the scripted model says what is so."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.models.scripted.script import ScriptedReply
from tertulia.models.scripted.script_file import parse_reply
from tertulia.models.scripted.scripted_model import ScriptedModel
from tertulia.models.wire import AnswerFailure, AnswerItem
from tertulia.protocol.items import AssistantMessage, ToolCall
from tests.deadlines import HANG_S
from tests.models.wire_contract import a_request, read

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "scripted-model.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
EXAMPLE, SETTINGS = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


async def test_the_complete_example_plays_as_its_comments_say(tmp_path: Path) -> None:
    """Issue 2, item 8: replies, tool calls, delays, failures, and matching on the last input."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    path = tmp_path / "rehearsal.yaml"
    path.write_text(EXAMPLE)
    model = ScriptedModel.from_file(path, sleep=sleep)
    heard = [await read(model, a_request(text)) for text in ("Hi", "The weather?", "Tidy up", "Closer", "More")]
    texts = [
        "".join(
            piece.item.text
            for piece in pieces
            if isinstance(piece, AnswerItem) and isinstance(piece.item, AssistantMessage)
        )
        for pieces in heard
    ]
    assert texts == [
        "Good morning. What shall we do?",
        "I cannot see the sky from here.",
        "I will make a plan.",
        "Let me look at that more closely.",
        "",
    ]
    assert [p.item.name for p in heard[2] if isinstance(p, AnswerItem) and isinstance(p.item, ToolCall)] == [
        "update_plan"
    ]
    assert waited[0] == 1.0
    assert set(waited[1:]) == {0.05}
    assert heard[4] == [AnswerFailure("The provider is overloaded", another_may_help=True)]
    review = a_request("Look at app.py", instructions="You review code.")
    for _ in range(2):
        assert [p.item.text for p in await read(model, review) if isinstance(p, AnswerItem)] == ["Looks good to me."]
    assert model.remaining == 0


async def test_the_settings_hold(tmp_path: Path) -> None:
    path = tmp_path / "rehearsal.yaml"
    path.write_text(SETTINGS)
    model = ScriptedModel.from_file(path)
    texts = [[p.item.text for p in await read(model, a_request()) if isinstance(p, AnswerItem)] for _ in range(3)]
    assert texts == [["Yes."], ["No."], ["Yes."]]
    assert model.context_window == 8000


def test_the_python_example_runs(tmp_path: Path) -> None:
    program = tmp_path / "work" / "example.py"
    program.parent.mkdir()
    body = textwrap.indent(PYTHON, "    ")
    program.write_text(f"import asyncio\n\nasync def main():\n{body}\nasyncio.run(main())\n")
    subprocess.run(
        [sys.executable, str(program)],
        cwd=program.parent,
        env={"PYTHONPATH": str(ROOT / "src"), "HOME": str(tmp_path / "home")},
        check=True,
        timeout=HANG_S,
    )


def test_every_key_of_a_reply_is_described() -> None:
    described = set(re.findall(r"`(\w+)(?:: true)?`", "".join(re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE))))
    assert described >= set(ScriptedReply.__struct_fields__) - {"gate"}


def test_the_complaint_shown_is_the_one_given() -> None:
    with pytest.raises(InvalidParamsError) as refused:
        parse_reply({"txt": "a"}, "rehearsal.yaml, reply 3")
    assert f"    {refused.value.message}\n" in PAGE
