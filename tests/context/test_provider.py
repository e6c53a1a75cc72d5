"""The interface, and what is made of the answers."""

from __future__ import annotations

import tertulia
from tertulia.context.provider import ContextProvider, Fragment, SessionContext


def test_a_provider_needs_no_more_than_a_name() -> None:
    """S001-05: any subset of the methods, including none."""

    class Silent(ContextProvider):
        name = "silent"

    silent, meta = Silent(), tertulia.AgentInstanceMeta(name="ada")
    assert silent.get_mcp_servers("ada", meta) is None
    assert silent.get_tools("ada", meta) is None
    assert silent.get_system_context("ada", meta) is None


def test_printing_a_context_shows_eight_characters_of_its_token_and_no_text() -> None:
    """S001-04, S001-45."""
    token = "0123456789abcdef" * 4
    context = SessionContext([], [], [f"use {token}"], token, fragments=(Fragment("x", f"use {token}", 9),))
    assert context.token == token
    assert context.system_context_additions == [f"use {token}"]
    shown = f"{context!r} {context.fragments!r}"
    assert token[:8] in shown
    assert token[:9] not in shown
    assert "use" not in shown


def test_every_name_of_the_design_can_be_imported_from_the_package() -> None:
    """S001-38."""
    for name in (
        *("SessionContextInjector", "SessionTokenStore", "CanvasContextProvider", "CoreContextProvider"),
        *("ContextProvider", "SessionContext", "McpServerStdio", "ToolDefinition", "ToolScope", "SessionToken"),
        *("AgentInstanceMeta", "load_template", "render_template"),
    ):
        assert getattr(tertulia, name) is not None
        assert name in tertulia.__all__
