"""A candidate: who does the tasks (a model, an agent, an executor), and the settings that it does them with."""

from __future__ import annotations

import hashlib
import itertools
import shlex
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tertulia.errors import InvalidParamsError

_OWN_KEYS = ("name", "model", "backend", "agent")


class EvalCandidate(msgspec.Struct, frozen=True, omit_defaults=True):
    """What differs between candidates. Everything else comes from the user's settings and holds for all of them."""

    name: str
    """How it is called in results."""
    model: str | None = None
    """`provider/model`; None: that of the settings."""
    backend: str | None = None
    """`codex`, `claude`, `acp:NAME`, `command:NAME`; None: the session itself."""
    agent: str | None = None
    """The name of one of `[agents.NAME]` in the settings."""
    overrides: tuple[str, ...] = ()
    """Settings, as `-c` spells them: `tool_profile=editor`."""

    def fingerprint(self, common: Sequence[str]) -> str:
        """Of everything that can change how it does a task, but its name. `common` is what holds for all candidates."""
        values = [self.model, self.backend, self.agent, *sorted(self.overrides), *sorted(common)]
        return hashlib.sha256(msgspec.json.encode(values)).hexdigest()


def candidates_from_flags(
    *,
    models: Sequence[str] = (),
    backends: Sequence[str] = (),
    agents: Sequence[str] = (),
    specs: Sequence[str] = (),
    variations: Sequence[str] = (),
) -> list[EvalCandidate]:
    """The candidates of a command line: one for each flag, each once more for each combination of variations.

    Args:
        models: One candidate each, as are `backends` and `agents`.
        backends: Executors.
        agents: Agents of the settings.
        specs: Candidates with several parts: `name=fast model=a/b tool_profile=editor`.
        variations: `KEY=VALUE`; those of one key are tried one after the other.

    Raises:
        InvalidParamsError: A flag cannot be read, or two candidates have one name.
    """
    plain = [
        *(EvalCandidate(model, model=model) for model in models),
        *(EvalCandidate(backend, backend=backend) for backend in backends),
        *(EvalCandidate(agent, agent=agent) for agent in agents),
        *(_from_spec(spec) for spec in specs),
    ]
    varied = [
        _varied(one, chosen) for one in plain or [EvalCandidate("default")] for chosen in _combinations(variations)
    ]
    names = [one.name for one in varied]
    for name in names:
        if names.count(name) > 1:
            raise InvalidParamsError(f"two candidates are called {name!r:.80}; `--candidate 'name=… …'` names one")
    return varied


def _from_spec(spec: str) -> EvalCandidate:
    try:
        words = shlex.split(spec)
    except ValueError:
        raise InvalidParamsError(f"--candidate {spec!r:.200}: a quotation mark is not closed") from None
    pairs = [word.partition("=") for word in words]
    if not pairs or not all(key and equals and value for key, equals, value in pairs):
        raise InvalidParamsError(f"--candidate {spec!r:.200}: expected KEY=VALUE KEY=VALUE …, such as `model=a/b`")
    own = {key: value for key, _, value in pairs if key in _OWN_KEYS}
    overrides = tuple(f"{key}={value}" for key, _, value in pairs if key not in _OWN_KEYS)
    own.setdefault("name", " ".join([*own.values(), *overrides]))
    return EvalCandidate(**own, overrides=overrides)


def _combinations(variations: Iterable[str]) -> list[tuple[str, ...]]:
    values: dict[str, list[str]] = {}
    for variation in variations:
        key, equals, value = variation.partition("=")
        if not (key and equals and value):
            raise InvalidParamsError(f"--vary {variation!r:.80}: expected KEY=VALUE, such as tool_profile=editor")
        values.setdefault(key, []).append(variation)
    return list(itertools.product(*values.values()))


def _varied(one: EvalCandidate, chosen: Sequence[str]) -> EvalCandidate:
    if not chosen:
        return one
    own = list(chosen) if one.name == "default" else [one.name, *chosen]
    return msgspec.structs.replace(one, name=" ".join(own), overrides=(*one.overrides, *chosen))


def to_flags(one: EvalCandidate, common: Mapping[str, object]) -> dict[str, object]:
    """The flags of a command line that had only this candidate."""
    own = {"model": one.model, "agent": one.agent}
    return {**common, **{key: value for key, value in own.items() if value is not None}}
