"""The provider's own search: offered where a conversation asked for it, and never run here."""

from __future__ import annotations

import pytest

import tertulia
from tertulia.errors import UnsupportedByBackendError
from tertulia.testing import ScriptedModel, call, say
from tertulia.tools.web_search import WebSearch
from tests.session.staging import BUILT_IN


async def test_it_is_offered_where_it_was_asked_for_and_the_session_allows_it() -> None:
    """S000-06, S000-16"""
    async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel())) as session:
        assert "web_search" not in [tool.name for tool in session.root.tools()]
        searching = await session.open(tools_web_search_request=True)
        assert [tool.name for tool in searching.tools()][:8] == [*BUILT_IN, "web_search", "conv_create"]
    closed = tertulia.Settings(model=ScriptedModel(), tools_web_search_request=False)
    async with tertulia.Session.start(closed) as session:
        refused = await session.open(tools_web_search_request=True)
        assert "web_search" not in [tool.name for tool in refused.tools()]
        assert [cut.field for cut in (await refused.context()).narrowed] == ["tools_web_search_request"]


async def test_a_model_that_calls_it_like_one_of_ours_is_refused_and_goes_on() -> None:
    model = ScriptedModel([say("", call("web_search", {"query": "x"})), "so be it"])
    async with tertulia.Session.start(tertulia.Settings(model=model, tools_web_search_request=True)) as session:
        reply = await session.root.message("search")
        assert reply.text == "so be it"
        output = next(item for item in model.last_request.items if type(item).__name__ == "ToolOutput")
        assert (output.success, "no tool" in output.text) == (False, True)


async def test_it_never_runs_here() -> None:
    tool = WebSearch()
    with pytest.raises(UnsupportedByBackendError):
        tool.check({}, None)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedByBackendError):
        await tool.run({}, None)  # type: ignore[arg-type]
