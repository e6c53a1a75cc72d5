"""Which addresses a login may name."""

from __future__ import annotations

from tertulia.mcp.login.addresses import address_problem
from tests.tables import each_row

PUBLIC, HERE, HOUSE = "https://mcp.example.com/mcp", "http://127.0.0.1:3000/mcp", "https://10.0.0.7/mcp"
GOOD = [
    (PUBLIC, "https://login.example.com/token"),
    (PUBLIC, "https://93.184.216.34/token"),
    (HERE, "http://localhost:4000/token"),
    (HERE, "http://[::1]:4000/token"),
    (HERE, "https://10.0.0.7/token"),
    (HOUSE, "https://10.0.0.8/token"),
]
BAD = [
    (PUBLIC, "http://login.example.com/token", "not encrypted"),
    (PUBLIC, "http://127.0.0.1/token", "not encrypted"),
    (PUBLIC, "https://127.0.0.1/token", "private network"),
    (PUBLIC, "https://localhost/token", "private network"),
    (PUBLIC, "https://169.254.169.254/latest", "private network"),
    (PUBLIC, "https://[::ffff:10.0.0.1]/", "private network"),
    (PUBLIC, "https://2130706433/", "no address"),
    (PUBLIC, "file:///etc/passwd", "no address"),
    (PUBLIC, "-oProxyCommand=x", "no address"),
    (PUBLIC, "javascript:alert(1)", "no address"),
    (PUBLIC, "https://user:word@login.example.com/", "no address"),
    (PUBLIC, "https://login.example.com:99999/", "no address"),
    (HERE, "http://login.example.com/token", "not encrypted"),
    (HOUSE, "http://10.0.0.7/token", "not encrypted"),
]


@each_row("server, address", GOOD)
def test_encrypted_addresses_and_those_of_this_machine_are_used(server: str, address: str) -> None:
    """C15"""
    assert address_problem(address, server) is None


@each_row("server, address, why", BAD)
def test_other_addresses_are_refused_by_name_and_without_their_query(server: str, address: str, why: str) -> None:
    """C15"""
    problem = address_problem(f"{address}?code=secret", server)
    assert problem is not None
    assert why in problem
    assert "secret" not in problem
