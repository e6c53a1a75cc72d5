"""`tertulia app-server`: a session for another program, as JSON-RPC over standard input and output."""

from __future__ import annotations

import asyncio

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.serve.startup import check_model, load_and_warn
from tertulia.cli.session_lookup import ResumeRequest, continue_flag, find_stored_session
from tertulia.server.jsonrpc.connection import RpcConnection
from tertulia.server.jsonrpc.stdio import ClientHandlerFactory, SessionStarter, serve_stdio
from tertulia.server.sockets.session_sockets import reachable_host
from tertulia.session.settings.settings import LoadedSettings, Settings

_MORE = """
\b
Examples:
  tertulia app-server -s read-only
  tertulia app-server --resume 3f2a
  tertulia app-server --codex
  printf '%s\\n' '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}' | tertulia app-server
"""


@click.command("app-server", epilog=_MORE)
@click.option("which", "--resume", metavar="ID", help="Serve a stored session instead of a new one.")
@continue_flag
@click.option("codex", "--codex", is_flag=True, help="Speak the protocol of `codex app-server` (experimental).")
@global_flags
@click.pass_obj
def command(flags: GlobalFlags, *, which: str | None, codex: bool, continues: bool) -> int:
    """Serve a session as JSON-RPC over standard input and output.

    One JSON object a line, both ways; standard error is for logs. Ends when standard input does. With --codex it
    stands in for `codex app-server`, for clients of that.
    """
    if codex and which is not None:
        raise click.UsageError("--resume does not go with --codex: its clients say `thread/resume`")
    if continues and which is None:
        raise click.UsageError("--continue goes with --resume ID")
    if codex:
        _translate_overrides(flags)
    loaded = load_and_warn(flags)
    if which is not None:
        session_id = find_stored_session(loaded, which, last=False)
        resume_request = ResumeRequest.of(flags, loaded, session_id, continues=continues)
        return asyncio.run(_serve(resume_request.settings, begin=resume_request.begin))
    check_model(loaded)
    return asyncio.run(_serve(loaded.settings, connect=_codex(flags, loaded) if codex else RpcConnection))


def _translate_overrides(flags: GlobalFlags) -> None:
    """Read `-c` as Codex does: its clients start it with settings of its own."""
    # Imported only with --codex.
    from tertulia.session.settings.codex_overrides import translate_overrides

    translated = translate_overrides(flags.overrides)
    flags.overrides[:] = translated.overrides
    if translated.base_url is not None:
        raise click.UsageError(
            "openai_base_url is not read here; set OPENAI_BASE_URL, or model_providers.openai.base_url"
        )
    for warning in translated.warnings:
        click.echo(f"tertulia: {warning}", err=True)


async def _serve(
    settings: Settings, *, begin: SessionStarter | None = None, connect: ClientHandlerFactory = RpcConnection
) -> int:
    async with reachable_host(settings) as host:
        return await serve_stdio(settings, begin, connect, host)


def _codex(flags: GlobalFlags, loaded: LoadedSettings) -> ClientHandlerFactory:
    # Imported only with --codex.
    from tertulia.cli.serve.startup import build_session_factory
    from tertulia.server.codex.server import CodexServer

    return lambda host, sink, _: CodexServer(build_session_factory(flags, loaded, host), sink)
