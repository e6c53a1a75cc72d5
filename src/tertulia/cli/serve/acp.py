"""`tertulia acp`: an agent for Zed, JetBrains, Neovim and every other editor that speaks the Agent Client Protocol."""

from __future__ import annotations

import asyncio
import importlib.util

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.models.login import log_in
from tertulia.cli.serve.startup import build_session_factory, check_model, load_and_warn, widest_mode
from tertulia.errors import InvalidParamsError
from tertulia.policy.orders import SANDBOX_ORDER
from tertulia.protocol.conversation_fields import sandbox_from_wire, sandbox_to_wire
from tertulia.server.sockets.session_sockets import reachable_host
from tertulia.session.settings.settings import LoadedSettings

_MORE = """
\b
Examples:
  tertulia acp
  tertulia acp -m anthropic/claude-sonnet-4-5 -a on-request
  tertulia acp -s workspace-write --mode read-only

\b
In Zed's settings.json:
  "agent_servers": {"Tertulia": {"type": "custom", "command": "tertulia", "args": ["acp"]}}
"""


@click.command("acp", epilog=_MORE)
@click.argument("login", metavar="[login]", type=click.Choice(["login"]), required=False)
@click.option(
    "mode",
    "--mode",
    metavar="MODE",
    help="Sessions begin in this mode. Nothing wider than -s, or the `sandbox` of a file, can be chosen.",
)
@global_flags
@click.pass_obj
def command(flags: GlobalFlags, *, mode: str | None, login: str | None) -> int:
    """Serve an editor as its agent: Agent Client Protocol over standard input and output.

    Each of the editor's sessions is a session of its own, in the directory that the editor names, under the settings
    that hold there. Ends when standard input does. With the word `login` it does what `tertulia login` does: editors
    run that in a terminal.
    """
    if login is not None:
        return log_in(flags, ())
    if importlib.util.find_spec("acp") is None:
        raise click.UsageError("this needs an extra: pip install 'tertulia[acp]'")
    loaded = load_and_warn(flags)
    check_model(loaded)
    begin_in = None if mode is None else _mode(mode, loaded)

    return asyncio.run(_serve(flags, loaded, begin_in))


async def _serve(flags: GlobalFlags, loaded: LoadedSettings, begin_in: str | None) -> int:
    from tertulia.server.acp.agent import serve_acp

    async with reachable_host(loaded.settings) as host:
        return await serve_acp(lambda: build_session_factory(flags, loaded, host, begin_in, open_ended=True))


def _mode(mode: str, loaded: LoadedSettings) -> str:
    wanted, most = sandbox_from_wire(mode), widest_mode(loaded)
    if SANDBOX_ORDER.meet(wanted, most) != wanted:
        raise InvalidParamsError(f"--mode {mode} is more than the settings allow: {sandbox_to_wire(most)}")
    return sandbox_to_wire(wanted)
