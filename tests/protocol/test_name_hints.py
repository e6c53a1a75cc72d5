"""Which name was probably meant: in another case, another program's, or a slip of the pen."""

from __future__ import annotations

from tertulia.protocol.name_hints import likely_name, name_hint, word_hint
from tests.tables import each_row

NAMES = ("mcp_servers", "sandbox", "sandbox_tier", "storage_policy", "tool_timeout_sec")


@each_row(
    ("name", "meant"),
    [
        ("mcpServers", "mcp_servers"),
        ("MCP-SERVERS", "mcp_servers"),
        ("sandbox_mode", "sandbox"),
        ("sandboxMode", "sandbox"),
        ("storage", "storage_policy"),
        ("timeout", "tool_timeout_sec"),
        ("sandbx", "sandbox"),
        ("zzz", None),
        ("", None),
    ],
)
def test_a_name_is_known_by_its_form_by_the_table_or_by_its_nearness(name, meant) -> None:
    assert likely_name(name, NAMES) == meant


def test_a_name_of_megabytes_is_compared_with_nothing() -> None:
    assert likely_name("sandbox" * 1_000_000, NAMES) is None


def test_a_hint_is_a_note_a_name_or_all_that_there_is() -> None:
    assert name_hint("tui", NAMES, {"tui": "leave it out"}) == "leave it out"
    assert name_hint("sandbx", NAMES, {}) == "did you mean sandbox?"
    assert name_hint("zzz", ("a", "b")) == "there are a, b"
    assert name_hint("zzz", ("native",)) == "there is only native"
    assert word_hint("readonly", ("read-only", "workspace-write")) == "; did you mean read-only?"
    assert word_hint("zzz", ("read-only",)) == ""
    assert word_hint(5, ("read-only",)) == ""
