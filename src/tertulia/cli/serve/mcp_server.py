"""`tertulia mcp-server`: conversations as the tools of an MCP server, over standard input and output."""

from __future__ import annotations

import asyncio

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.serve.startup import check_model, load_and_warn
from tertulia.cli.stop_signals import on_stop_signal
from tertulia.events.clock import SystemClock
from tertulia.mcp.serve.endpoint import load_sdk
from tertulia.scheduler.nursery import Nursery
from tertulia.server.idle_sessions import IdleSessionCloser
from tertulia.server.mcp.conversation_server import build_conversation_server
from tertulia.server.mcp.transport import serve_mcp_stdio
from tertulia.session.host import Host
from tertulia.session.settings.settings import Settings

_MORE = """
\b
Examples:
  tertulia mcp-server -s read-only
\b
In the configuration of Codex:
  [mcp_servers.tertulia]
  command = "tertulia"
  args = ["mcp-server", "-s", "read-only"]
"""

_LAST_S = 2.0


@click.command("mcp-server", epilog=_MORE)
@global_flags
@click.pass_obj
def command(flags: GlobalFlags) -> int:
    """Serve conversations as the tools of an MCP server.

    Any program that speaks MCP can open conversations, give them work, steer and stop them; `codex` and `codex-reply`
    are there for programs that know those. What has to be approved is asked through the program. Ends when standard
    input does.
    """
    loaded = load_and_warn(flags)
    check_model(loaded)
    load_sdk("`tertulia mcp-server` needs")
    return asyncio.run(_serve(loaded.settings))


async def _serve(settings: Settings) -> int:
    host, nursery, stop = Host(settings), Nursery(), asyncio.Event()
    broker = build_conversation_server(host, nursery.start)
    nursery.start(IdleSessionCloser(host, SystemClock()).keep_looking(), "idle sessions")
    try:
        with on_stop_signal(stop.set):
            await serve_mcp_stdio(broker, stop)
    finally:
        broker.close()
        await host.close()
        await nursery.close(_LAST_S)
    return 0
