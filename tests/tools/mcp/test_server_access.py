"""The interface to MCP servers, held by the twin that the tests use."""

from __future__ import annotations

from tertulia.tools.mcp.server_access import CallerFactory, ReachableServers, RemoteToolState
from tests.tools.serving import READING, StubAsker, StubServers, spec_of


def test_the_twin_in_memory_keeps_the_interface() -> None:
    servers: ReachableServers = StubServers()
    asker: CallerFactory = StubAsker()
    current: RemoteToolState = servers.current(spec_of(READING))
    assert (current.tool, current.digest) == (READING, spec_of(READING).digest)
    assert asker is not None
