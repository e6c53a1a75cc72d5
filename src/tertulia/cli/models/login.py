"""`tertulia login`: keeps the key of a model provider. It is never read from the command line, and never shown."""

from __future__ import annotations

import getpass
import re
import sys
from collections.abc import Iterator, Sequence

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.models.command import configured_providers, provider_names
from tertulia.cli.output.tables import write_columns
from tertulia.cli.output.terminal import StyledText, TerminalOutput
from tertulia.errors import InvalidParamsError, StorageError
from tertulia.models.catalog import DEFAULT_MODELS, locate_model
from tertulia.policy.key_store import KeyPlace, KeyStore
from tertulia.policy.redaction import Redactor
from tertulia.protocol.name_hints import near_names
from tertulia.session.settings.settings import LoadedSettings

_MORE = """
\b
Examples:
  tertulia login openai
  pass show openai | tertulia login openai
  tertulia login --status
  tertulia logout openai
"""
_MAX_KEY = 4096
_MAX_NAME = 40
"""A longer word is more likely a key than the name of a provider, and is not repeated."""
_TAIL, _TAIL_FROM = 4, 16
"""So many characters are shown of a key that has at least so many."""
_ASSIGNMENT = re.compile(r"(?:export\s+)?[A-Za-z_][A-Za-z0-9_]*=")


@click.command("login", epilog=_MORE)
@click.argument("words", metavar="PROVIDER", nargs=-1)
@click.option("--status", is_flag=True, help="Show which providers have a key, and where it comes from.")
@global_flags
@click.pass_obj
def command(flags: GlobalFlags, *, words: Sequence[str], status: bool) -> int:
    """Keep the key of a model provider.

    On a terminal it asks for the key and does not show it; else it reads it from standard input. It goes into the
    system's keyring, where there is one that works and `tertulia[keyring]` is installed, else into a file in the data
    directory that only you can read. A key in the environment counts before a stored one.
    """
    if status:
        if words:
            raise click.UsageError("--status shows all providers, and takes no PROVIDER")
        _write_status(flags.load())
        return 0
    return log_in(flags, words)


def log_in(flags: GlobalFlags, words: Sequence[str]) -> int:
    """Keep a key; a terminal is asked for the provider where no word names it. Returns the exit code."""
    loaded = flags.load()
    names = provider_names(loaded)
    provider = check_provider(words or _asked_provider(names), names)
    key = check_key(_read_key(provider))
    store = key_store(loaded)
    replaced = provider in store.places()
    place = store.keep(provider, key)
    _write_outcome(loaded, provider, key, f"{where_kept(store, place)}{', in place of an earlier one' * replaced}")
    return 0


def key_store(loaded: LoadedSettings) -> KeyStore:
    """The stored keys of the data directory."""
    return KeyStore(loaded.environment.keys_file, loaded.environment.variables)


def where_kept(store: KeyStore, place: KeyPlace) -> str:
    """Where a key is, in words that end a sentence."""
    return "the system's keyring" if place == "keyring" else f"{store.path}, which only you can read"


# ---- what is given


def check_provider(words: Sequence[str], names: Sequence[str]) -> str:
    """The one word of these, if it is one of the names; else an error that does not repeat what may be a key."""
    if not words:
        raise click.UsageError(f"of which provider? There are {', '.join(names)}")
    if len(words) > 1:
        raise click.UsageError(
            "it takes one PROVIDER and nothing else. A key is not given on the command line, where other programs can "
            "read it and the shell's history keeps it: type it when you are asked, or pipe it in"
        )
    (name,) = words
    if name in names:
        return name
    if not name.isprintable() or len(name) > _MAX_NAME or Redactor().text(name) != name:
        raise InvalidParamsError(
            f"that is no provider; there are {', '.join(names)}. If it was a key: it is not given on the command line, "
            "where other programs can read it and the shell's history keeps it"
        )
    near = near_names(name, names)
    meant = f"did you mean {near[0]}? There are" if near else "there are"
    raise InvalidParamsError(
        f"there is no provider {name!r}; {meant} {', '.join(names)}; describe others under [model_providers.NAME]. "
        "`tertulia login --status` shows which have a key"
    )


def _asked_provider(names: Sequence[str]) -> Sequence[str]:
    if sys.stdin is None or not sys.stdin.isatty():
        return ()
    answer = click.prompt(f"Of which provider? There are {', '.join(names)}", default=names[0], err=True)
    return (str(answer).strip(),)


def _read_key(provider: str) -> str:
    if sys.stdin is None:
        raise InvalidParamsError(f"standard input is closed: pipe the key for {provider} in, or run it on a terminal")
    if sys.stdin.isatty():
        try:
            return getpass.getpass(f"Key for {provider} (it is not shown): ")
        except EOFError:
            raise click.Abort from None
    # One more than there may be, to tell that there was more.
    raw = sys.stdin.buffer.read(4 * _MAX_KEY + 1)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise InvalidParamsError("what was given is no key: it is not text") from None


def check_key(value: str) -> str:
    """The key without the white space around it; InvalidParams says what is wrong with it, and does not repeat it."""
    key = value.strip()
    problem = next((problem for wrong, problem in _problems(key) if wrong), None)
    if problem is not None:
        raise InvalidParamsError(f"{problem}; nothing was kept")
    return key


def _problems(key: str) -> Iterator[tuple[bool, str]]:
    yield not key, "the key is empty"
    yield "://" in key, "that is an address and no key; where a provider is goes into `base_url` of its table"
    yield _ASSIGNMENT.match(key) is not None, "that is a variable with its name: give only what stands behind the `=`"
    yield any(character.isspace() for character in key), "a key has no white space in it, and this one does"
    yield not key.isprintable(), "a key has no control characters in it, and this one does"
    yield not key.isascii(), "a key has ASCII characters only, and this one has others"
    yield key[0] in "\"'`" or key[-1] in "\"'`", "the key stands in quotation marks: give it without them"
    yield len(key) > _MAX_KEY, f"no key has more than {_MAX_KEY:,} characters"


# ---- what is shown


def _write_outcome(loaded: LoadedSettings, provider: str, key: str, where: str) -> None:
    variables = loaded.environment.variables
    out, notes = TerminalOutput(sys.stdout, variables), TerminalOutput(sys.stderr, variables)
    out.line("The key for ", (provider, "bold"), f"{_tail(key)} is kept in {where}.")
    env_key = locate_model(f"{provider}/any", configured_providers(loaded), variables).provider.env_key
    if env_key is not None and variables.get(env_key, "").strip():
        notes.line(("note", "yellow"), f" {env_key} is set, and counts before this key as long as it is.")
    if not loaded.settings.stored_keys:
        notes.line(("note", "yellow"), " `stored_keys` is false in your settings: no stored key is used.")
    usual = {model.partition("/")[0]: model for _, model in DEFAULT_MODELS}
    tried = usual.get(provider, f"{provider}/MODEL")
    out.line((f"Try it: tertulia models test {tried}", "dim"))


def _tail(key: str) -> str:
    return f" (…{key[-_TAIL:]})" if len(key) >= _TAIL_FROM else ""


def _write_status(loaded: LoadedSettings) -> None:
    store = key_store(loaded)
    places = store.places()
    rows: list[list[StyledText]] = []
    for name in dict.fromkeys((*provider_names(loaded), *places)):
        key, origin = _describe(name, loaded, store, places)
        rows.append([(name, "bold"), key, origin])
    write_columns(TerminalOutput(sys.stdout, loaded.environment.variables), ("PROVIDER", "KEY", "FROM"), rows)


def _describe(
    name: str, loaded: LoadedSettings, store: KeyStore, places: dict[str, KeyPlace]
) -> tuple[StyledText, StyledText]:
    variables, env_key = loaded.environment.variables, None
    known = name in provider_names(loaded)
    if known:
        env_key = locate_model(f"{name}/any", configured_providers(loaded), variables).provider.env_key
    if env_key is not None and (value := variables.get(env_key, "").strip()):
        also = "; the stored one is not used" if name in places else ""
        return _shown(value), f"the environment variable {env_key}{also}"
    if name in places:
        try:
            value = store.read(name) or ""
        except StorageError as error:
            return ("not readable", "red"), (error.message, "red")
        gone = "" if known else "; no provider has this name now"
        return _shown(value), f"`tertulia login`, kept in {where_kept(store, places[name])}{gone}"
    if env_key is None:
        return ("none", "dim"), ("needs none", "dim")
    return ("none", "dim"), (f"set {env_key}, or `tertulia login {name}`", "dim")


def _shown(key: str) -> str:
    return f"…{key[-_TAIL:]}" if len(key) >= _TAIL_FROM else "set"
