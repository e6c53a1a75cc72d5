"""Asks whether a definition in a project's file is trusted, or takes the trust back: servers and hooks are asked about
alike.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Literal

import click

from tertulia.cli.output.terminal import TerminalOutput
from tertulia.errors import InvalidParamsError
from tertulia.mcp.config.trust_store import ProjectDefinition, TrustStore


def revoke_trust(store: TrustStore, definition: ProjectDefinition, out: TerminalOutput) -> int:
    """Trust it no longer; the exit code."""
    was = store.revoke(definition.name, definition.source)
    out.line((definition.name, "bold"), " is no longer trusted" if was else " was not trusted")
    return 0


def offer_trust(
    store: TrustStore,
    definition: ProjectDefinition,
    out: TerminalOutput,
    show: Callable[[], object],
    *,
    verb: str,
    sure: bool,
) -> Literal["already", "trusted", "refused"]:
    """Show it, and trust it after a yes. InvalidParams where there is no terminal to ask on.

    Args:
        store: Where trust is written down.
        definition: What is asked about.
        out: Where it is shown.
        show: Shows it.
        verb: What trusts one without a question, without the name.
        sure: The yes was given with the command.
    """
    if store.is_trusted(definition):
        out.line((definition.name, "bold"), " is trusted already")
        return "already"
    show()
    if not sure and not _confirm(f"{verb} {definition.name} --yes", out):
        out.line("It is not trusted.")
        return "refused"
    store.trust(definition)
    out.line((definition.name, "bold"), " is trusted, as long as this stays as it is")
    return "trusted"


def _confirm(without: str, out: TerminalOutput) -> bool:
    if not (out.live and sys.stdin is not None and sys.stdin.isatty()):
        raise InvalidParamsError(f"there is no terminal to ask on; look at it, then `{without}`")
    return click.confirm("Trust it?", default=False)
