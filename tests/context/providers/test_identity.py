"""An agent is told who it is."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.context.providers.identity import CoreContextProvider


@pytest.mark.parametrize("archetype", ["repo", "service", "employee", "wizard"])
def test_every_archetype_is_told_who_it_is_and_where(archetype: str, meta: Any) -> None:
    """S001-32."""
    provider = CoreContextProvider()
    text = provider.get_system_context("my-agent", meta(archetype, backend_type="pi", workspace_policy="ephemeral"))
    assert provider.name == "core-identity"
    assert "You are **my-agent**" in text
    for message in (f"Archetype: {archetype}. ", "Backend: pi", "Workspace: ephemeral", "Tertulia"):
        assert message in text
    assert "{{" not in text


def test_each_archetype_is_described_in_its_own_words(meta: Any) -> None:
    """S001-30, S001-32."""
    provider = CoreContextProvider()
    kinds = ("repo", "service", "employee", "wizard")
    texts = [provider.get_system_context("a", meta(kind)).replace(kind, "") for kind in kinds]
    assert len(set(texts)) == 4


def test_it_has_text_only() -> None:
    """S001-32."""
    assert not hasattr(CoreContextProvider, "get_tools")
    assert not hasattr(CoreContextProvider, "get_mcp_servers")
