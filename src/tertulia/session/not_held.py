"""What the sandboxes of a session cannot hold, in plain sentences: for `session/info`, so that a client can show it."""

from __future__ import annotations

from collections.abc import Iterator

from tertulia.conversation.terms import NATIVE
from tertulia.session.parts import Parts


def not_held(parts: Parts) -> list[str]:
    """Of the tier that commands run in, and of every other program that works for an open conversation."""
    rights = parts.settings.rights()
    sentences = list(parts.workshop.sandbox.not_covered)
    if rights.sandbox == "danger_full_access":
        sentences.append("a conversation in danger-full-access is not confined: its commands may do what the user may")
    for backend in sorted({talk.terms.backend for talk in parts.conversations} - {NATIVE}):
        sentences += _of_agent(backend, parts)
    return sentences


def _of_agent(backend: str, parts: Parts) -> Iterator[str]:
    yield (
        f"{backend} runs in its own sandbox, with its own home and login: masks, protected names and startup files "
        "hold for what it does through Tertulia, and not for what its own commands read and write"
    )
    if parts.settings.allow_home_workspace:
        yield (
            f"{backend} may write whatever lies in the workspace, which is allowed to be the user's home: startup "
            "files, keys and Tertulia's own settings are not kept from it"
        )
