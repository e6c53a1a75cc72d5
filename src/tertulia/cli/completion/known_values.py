"""The values that are different on every machine: stored sessions, models, providers. Only reads files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, cast

from tertulia.cli.completion.word_table import Candidate
from tertulia.cli.output.tables import format_age
from tertulia.events.clock import SystemClock
from tertulia.models.catalog import DEFAULT_MODELS, LOCAL_PROVIDER, PRICES, PROVIDERS
from tertulia.models.local.weights import WEIGHTS
from tertulia.rollout.sqlite.session_files import is_session_id, sessions_folder
from tertulia.session.settings.config_file import read_config
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.settings import current_environment

_MAX_SESSIONS = 100
_PLAIN = re.compile(r"[\w./:@+-]+")
"""A value that needs no quoting in any shell: bash inserts completions unquoted."""
_MAKERS = {"gpt-": "openai", "claude-": "anthropic"}


def known_values(kind: str) -> Iterator[Candidate]:
    """All values of a kind: `session`, `model` or `provider`; none of any other."""
    return (value for value in _values(kind, current_environment()) if _PLAIN.fullmatch(value.value))


def _values(kind: str, environment: Environment) -> Iterator[Candidate]:
    match kind:
        case "session":
            yield from _sessions(environment)
        case "model":
            yield from map(Candidate, dict.fromkeys(_models(environment)))
        case "provider":
            yield from map(Candidate, dict.fromkeys((*PROVIDERS, *_configured_providers(_config(environment)))))
        case _:
            return


def _sessions(environment: Environment) -> Iterator[Candidate]:
    """The newest first. Only the folder is read: opening the sessions would write an index of them."""
    now = SystemClock().now()
    try:
        found = list(os.scandir(sessions_folder(environment.home)))
    except FileNotFoundError:
        return
    named = [(entry.name.removesuffix(".db"), entry) for entry in found if entry.name.endswith(".db")]
    ages = {name: now - entry.stat(follow_symlinks=False).st_mtime for name, entry in named if is_session_id(name)}
    for session_id in sorted(ages, key=lambda name: ages[name])[:_MAX_SESSIONS]:
        yield Candidate(session_id, f"last used {format_age(ages[session_id])}")


def _models(environment: Environment) -> Iterator[str]:
    config = _config(environment)
    for named in (environment.variables.get("TERTULIA_MODEL"), config.get("model")):
        if isinstance(named, str) and named:
            yield named
    yield from (model for _, model in DEFAULT_MODELS)
    for name in sorted(PRICES):
        for beginning, provider in _MAKERS.items():
            if name.startswith(beginning):
                yield f"{provider}/{name}"
    yield LOCAL_PROVIDER
    yield from (weights.model for weights in WEIGHTS)
    # Of these every name is the server's own.
    listed = {*_MAKERS.values()}
    yield from (f"{name}/" for name in (*PROVIDERS, *_configured_providers(config)) if name not in listed)
    yield "scripted/"


def _config(environment: Environment) -> dict[str, Any]:
    return read_config(environment.config_file) or {}


def _configured_providers(config: dict[str, Any]) -> list[str]:
    tables = config.get("model_providers")
    return list(cast("dict[str, Any]", tables)) if isinstance(tables, dict) else []
