"""Where secrets usually lie: what a command sees as empty unless the user says otherwise."""

from __future__ import annotations

import os.path

_BELOW_HOME = (
    ".ssh",
    ".aws",
    ".gnupg",
    ".config/gcloud",
    ".kube",
    ".netrc",
    ".codex/auth.json",
    ".claude",
)


def default_masks(user_home: str, tertulia_home: str) -> tuple[str, ...]:
    """Keys, credentials of clouds and agents, and our own data, as absolute paths; they need not exist."""
    return (*(os.path.join(user_home, name) for name in _BELOW_HOME), tertulia_home)
