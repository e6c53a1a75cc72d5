"""Services and employees have a canvas, repositories have none."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.context.providers.canvas import CanvasContextProvider
from tertulia.context.templates import load_template


@pytest.mark.parametrize(("archetype", "has"), [("repo", False), ("service", True), ("employee", True), ("?", False)])
def test_the_canvas_is_for_services_and_employees(archetype: str, has: bool, meta: Any) -> None:
    """S001-33, X-48."""
    provider = CanvasContextProvider()
    assert provider.name == "canvas"
    assert [tool.name for tool in provider.get_tools("a", meta(archetype))] == ["canvas_update", "canvas_clear"] * has
    assert provider.get_system_context("a", meta(archetype)) == (load_template("canvas-context") if has else None)
    assert not hasattr(provider, "get_mcp_servers")


def test_its_tools_are_those_of_the_design(meta: Any) -> None:
    """S001-34."""
    update, clear = CanvasContextProvider().get_tools("a", meta())
    assert (update.rpc_method, update.scope) == ("canvas.update", "service")
    assert (clear.rpc_method, clear.scope) == ("canvas.clear", "service")
    assert update.parameters is not None
    assert clear.parameters is not None
    assert list(update.parameters["properties"]) == ["html", "title"]
    assert update.parameters["required"] == ["html"]
    assert clear.parameters["properties"] == {}
