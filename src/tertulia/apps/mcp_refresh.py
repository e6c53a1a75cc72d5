"""`tertulia mcp refresh`: a stored session takes the tools of its servers as they are now."""

from __future__ import annotations

import asyncio
import sys

import click

from tertulia.apps.columns import counted
from tertulia.apps.global_flags import Given, global_flags
from tertulia.apps.stored import Comeback, find_stored, which_session
from tertulia.apps.terminal import Terminal
from tertulia.session.handle import Conversation
from tertulia.session.settings.settings import LoadedSettings

_MORE = """
\b
Examples:
  tertulia mcp refresh --last
  tertulia mcp refresh 3f2a && tertulia resume 3f2a

\b
Exit codes:
  0  done
  1  a server is not up: what it offers could not be looked at
  2  usage or configuration
"""


@click.command("refresh", epilog=_MORE)
@which_session
@global_flags
@click.pass_obj
def refresh(given: Given, *, which: str | None, last: bool) -> int:
    """Give a stored session the tools of its servers as they are now.

    A conversation keeps the definitions that it was shown, also over the end of the program. One that a server has
    changed since is withheld; this takes them all as they are. `tertulia mcp tools` shows them first.
    """
    loaded = given.load()
    session_id = find_stored(loaded.environment.home, which, last=last)
    return asyncio.run(_refresh(Comeback.of(given, loaded, session_id), loaded))


async def _refresh(comeback: Comeback, loaded: LoadedSettings) -> int:
    out, notes = (Terminal(stream, loaded.environment.variables) for stream in (sys.stdout, sys.stderr))
    async with comeback.session() as session:
        await session.parts.servers.refresh()
        down = [report for report in session.parts.servers.reports() if report.status not in ("ready", "disabled")]
        for conversation in session.conversations():
            before = _offered(conversation)
            await conversation.set_context(refresh_mcp_view=True)
            after = _offered(conversation)
            name = "root" if conversation.id == session.root.id else conversation.id
            taken = ", ".join(sorted(after - before)) or "as they were"
            out.line((name, "bold"), f" {counted(len(after), 'tool')} of MCP servers: {taken}")
    for report in down:
        notes.line(f"tertulia: MCP server {report.name} is {report.status}: {report.error or 'no reason is known'}")
    return 1 if down else 0


def _offered(conversation: Conversation) -> set[str]:
    return {tool.name for tool in conversation.tools() if tool.source == "mcp"}
