"""The one place that names concrete members."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.errors import InvalidParamsError, NoModelError
from tertulia.events.journal import NoJournal
from tertulia.models.choice import NoModel
from tertulia.protocol.tool_spec import CONV_TOOLS
from tertulia.session.assembly import assemble_session
from tertulia.session.members import ModelCatalogue
from tertulia.session.parts import SessionStart
from tertulia.session.settings.environment import Environment
from tertulia.testing import FakeClock, ScriptedModel
from tests.events.scripted import drain
from tests.session.staging import BUILT_IN, Ask


def models(tmp_path: Path, **settings: Any) -> ModelCatalogue:
    return ModelCatalogue(tertulia.Settings(**settings), Environment.read({"HOME": str(tmp_path)}))


def test_a_wire_is_found_by_name_and_one_that_is_given_is_taken(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"replies": ["hello"]}))
    scripted_model, known = ScriptedModel([]), models(tmp_path)
    assert known.find(scripted_model) is scripted_model
    assert known.find("scripted/tour").name == "scripted/tour"
    assert known.find(f"scripted/{script}").name == f"scripted/{script}"


@pytest.mark.parametrize("model", ["nobody/knows", "plain", "", "scripted/no/such.json", 5, object(), ["x"]])
def test_a_model_that_is_unknown_or_none_is_refused(tmp_path: Path, model: object) -> None:
    """DESIGN, Models: an unknown provider is refused at open."""
    with pytest.raises(InvalidParamsError):
        models(tmp_path).find(model)


def test_where_no_model_is_named_and_none_is_found_none_answers_and_the_ways_to_one_are_listed(tmp_path: Path) -> None:
    """Issue 19, items 4 and 12: no key, no model of this machine. A given wire is taken as it is."""
    scripted_model = ScriptedModel([])
    assert models(tmp_path).choose(scripted_model) is scripted_model
    for named in (None, "none"):
        chosen = models(tmp_path).choose(named)
        assert isinstance(chosen, NoModel)
        for way in ("OPENAI_API_KEY", "tertulia login PROVIDER", "--model local", "tertulia models pull smollm2"):
            assert way in chosen.reason
        with pytest.raises(NoModelError, match="no model is set up"):
            models(tmp_path).require(named)
    models(tmp_path).require(scripted_model)
    assert models(tmp_path).find("none").name == "none"


async def test_a_session_is_announced_first_and_then_its_root() -> None:
    clock = FakeClock()
    parts = assemble_session(tertulia.Settings(model=ScriptedModel([])), SessionStart(clock=clock, journal=NoJournal()))
    events = drain(parts.bus.subscribe(after=0))
    assert [event.type for event in events] == ["session_configured", "conversation_opened"]
    assert events[0].data.root_conversation_id == parts.conversations.root.id
    assert events[1].data.parent_id is None
    assert parts.clock is clock


async def test_servers_that_are_switched_off_are_said_to_be_disabled() -> None:
    off = {name: {"command": name, "enabled": False} for name in ("b", "a")}
    settings = tertulia.Settings(model=ScriptedModel([]), mcp_servers=off)
    async with tertulia.Session.start(settings) as session:
        assert [(server["name"], server["status"]) for server in session.info.mcp] == [
            ("a", "disabled"),
            ("b", "disabled"),
        ]
        events = [event.data for event in drain(session.events(after=0)) if event.type == "mcp_server_status"]
        assert [(data.name, data.status) for data in events] == [("a", "disabled"), ("b", "disabled")]


async def test_tools_are_functions_made_tools_plain_functions_and_objects() -> None:
    def plain(text: str) -> str:
        """Repeat."""
        return text

    @tertulia.tool
    def made(text: str) -> str:
        """Repeat."""
        return text

    settings = tertulia.Settings(model=ScriptedModel([]), tools=[plain, made, Ask("object")])
    async with tertulia.Session.start(settings) as session:
        assert [tool.name for tool in session.root.tools()] == [*BUILT_IN, "object", *CONV_TOOLS, "plain", "made"]


@pytest.mark.parametrize("bad", [5, "name", None])
async def test_what_is_neither_tool_nor_function_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidParamsError, match="tool"):
        async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel([]), tools=[bad])):
            raise AssertionError("entered")


async def test_work_is_done_where_the_settings_say(tmp_path: Path) -> None:
    settings = tertulia.Settings(model=ScriptedModel(["ok"]), cwd=str(tmp_path))
    async with tertulia.Session.start(settings) as session:
        seeded = next(iter(session.parts.conversations.root.history.snapshot()))
        assert f"<cwd>{tmp_path}</cwd>" in seeded.text
