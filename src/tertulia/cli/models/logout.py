"""`tertulia logout`: forgets the key that `tertulia login` kept for a model provider."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.models.command import configured_providers, provider_names
from tertulia.cli.models.login import check_provider, key_store, where_kept
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.errors import NotFoundError
from tertulia.models.catalog import locate_model

_MORE = """
\b
Examples:
  tertulia logout openai
  tertulia login --status
"""


@click.command("logout", epilog=_MORE)
@click.argument("words", metavar="PROVIDER", nargs=-1)
@global_flags
@click.pass_obj
def command(flags: GlobalFlags, *, words: Sequence[str]) -> int:
    """Forget the key that was kept for a model provider.

    It is removed from the system's keyring or from our file. The provider still accepts it: where it may be known to
    others, revoke it there. A key in the environment stays.
    """
    loaded = flags.load()
    variables, store = loaded.environment.variables, key_store(loaded)
    names, places = provider_names(loaded), store.places()
    provider = check_provider(words, list(dict.fromkeys((*names, *places))))
    place = store.remove(provider)
    if place is None:
        raise NotFoundError(f"no key for {provider} is kept; `tertulia login --status` shows which are")
    TerminalOutput(sys.stdout, variables).line(
        "The key for ", (provider, "bold"), f" is removed from {where_kept(store, place).partition(',')[0]}."
    )
    if provider in names:
        env_key = locate_model(f"{provider}/any", configured_providers(loaded), variables).provider.env_key
        if env_key is not None and variables.get(env_key, "").strip():
            notes = TerminalOutput(sys.stderr, variables)
            notes.line(("note", "yellow"), f" {env_key} is still set in the environment, and is used.")
    return 0
