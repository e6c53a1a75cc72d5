"""Where the processes of MCP servers run: one pool for a host, or for a session without one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tertulia.errors import McpError
from tertulia.events.clock import Clock
from tertulia.mcp.client.connection import connect
from tertulia.mcp.config.launch import resolve_launch
from tertulia.mcp.pool.server_pool import ServerPool
from tertulia.mcp.pool.session_server import ConfiguredServer
from tertulia.mcp.rate_limiter import InFlight
from tertulia.sandbox.confine import GuardedRunner
from tertulia.sandbox.sandbox import Sandbox
from tertulia.scheduler.nursery import Nursery
from tertulia.session.mcp.configured_servers import ConfiguredServers
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.network import network_access
from tertulia.session.settings.settings import Settings
from tertulia.session.settings.workspace import guarded_paths_of, workspace_of

if TYPE_CHECKING:
    from tertulia.mcp.login.login_store import LoginStore


class McpHost:
    """The pool of MCP servers, and the sandbox that starts them. No server runs at first."""

    def __init__(self, settings: Settings, environment: Environment, clock: Clock, nursery: Nursery) -> None:
        sandbox = Sandbox(tier=settings.sandbox_tier, clock=clock)
        self._runner = GuardedRunner(sandbox, guarded_paths_of(settings, environment))
        self.in_flight = InFlight()
        self.pool = ServerPool(
            spawn=nursery.start,
            clock=clock,
            runner=lambda: self._runner,
            home=environment.home,
            connect=connect,
            logins=lambda: stored_logins(settings, environment),
        )

    async def close(self, timeout_s: float) -> None:
        """End all servers; those that do not exit within this time are killed. Idempotent."""
        try:
            await self.pool.close(timeout_s)
        finally:
            await self._runner.close()


def stored_logins(settings: Settings, environment: Environment) -> LoginStore | None:
    """The logins of `tertulia mcp login`, where stored keys count."""
    if not settings.stored_keys:
        return None
    # Imported here: most sessions have no server that is an address.
    from tertulia.mcp.login.login_store import LoginStore

    return LoginStore(environment.home, environment.variables)


def server_candidates(
    configured: ConfiguredServers, settings: Settings, environment: Environment
) -> Iterator[ConfiguredServer]:
    """Every configured server with its launch, or with the reason why it is not started."""
    workspace = None if settings.is_broker else workspace_of(settings)
    access = network_access(settings, environment)
    for unstarted in configured.unstarted:
        yield ConfiguredServer(unstarted.name, unstarted.definition, status=unstarted.status, error=unstarted.error)
    for definition in configured.definitions:
        try:
            launch = resolve_launch(definition, environment.variables, workspace, access)
        except McpError as error:
            yield ConfiguredServer(definition.name, definition, status="failed", error=error.message)
        else:
            yield ConfiguredServer(definition.name, definition, launch)
