"""What a definition lets through."""

from __future__ import annotations

from tertulia.mcp.config.definition import ServerDefinition, Stdio
from tests.tables import each_row


@each_row(
    ("enabled", "disabled", "offered"),
    [
        (None, (), ["read", "write"]),
        (("read",), (), ["read"]),
        ((), (), []),
        (None, ("write",), ["read"]),
        (("read", "write"), ("write",), ["read"]),
    ],
)
def test_a_tool_must_be_enabled_and_not_disabled(enabled, disabled, offered) -> None:
    transport = Stdio(command="x")
    server = ServerDefinition(name="x", transport=transport, enabled_tools=enabled, disabled_tools=disabled)
    assert [tool for tool in ("read", "write") if server.offers(tool)] == offered
