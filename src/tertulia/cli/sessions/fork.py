"""`tertulia sessions fork`: a new session that begins with what was said in a stored one."""

from __future__ import annotations

import asyncio
import sys

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.cli.session_lookup import find_stored_session, with_session_argument
from tertulia.cli.sessions.replay import find_stored_conversation
from tertulia.events.clock import SystemClock
from tertulia.protocol.ids import ItemId
from tertulia.session.conversations import ROOT
from tertulia.session.resume.fork import fork_session

_MORE = """
\b
Examples:
  tertulia sessions fork --last
  tertulia sessions fork 3f2a --at 2
  tertulia resume $(tertulia sessions fork 3f2a --conversation 81bc)
"""


@click.command("fork", epilog=_MORE)
@with_session_argument
@click.option("--at", metavar="ROUND|ITEM", help="Up to the end of a round (the first is 1), or up to an item's id.")
@click.option("--conversation", metavar="C", default=ROOT, help="Whose history; `root` if you do not say.")
@global_flags
@click.pass_obj
def fork(given: GlobalFlags, *, which: str | None, last: bool, at: str | None, conversation: str) -> int:
    """Begin a new session with the history of a stored one.

    Prints the new id. The conversation becomes the root there, with its instructions, rights and storage policy; what
    was not stored is not there either. The old session stays as it is, and may be in use.
    """
    loaded = given.load()
    environment = loaded.environment
    session_id = find_stored_session(environment.home, which, last=last)
    forked = asyncio.run(
        fork_session(
            environment,
            loaded.settings,
            SystemClock(),
            session_id,
            conversation_id=find_stored_conversation(environment.home, session_id, conversation),
            at=_point(at),
        )
    )
    TerminalOutput(sys.stdout, environment.variables).line(forked)
    return 0


def _point(at: str | None) -> ItemId | int | None:
    if at is None:
        return None
    # Ids of items have 16 characters: a number that long is none of a round.
    return int(at) if at.isascii() and at.isdigit() and len(at) < 10 else ItemId(at)
