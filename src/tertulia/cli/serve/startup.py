"""What every serving verb does before it serves: prints the warnings of the settings, and checks the model."""

from __future__ import annotations

import sys

from tertulia.cli.global_flags import GlobalFlags
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.session.members import ModelCatalogue
from tertulia.session.settings.settings import LoadedSettings


def load_and_warn(flags: GlobalFlags) -> LoadedSettings:
    """Load the settings, and print their warnings to standard error."""
    loaded = flags.load()
    notes = TerminalOutput(sys.stderr, loaded.environment.variables)
    for warning in loaded.warnings:
        notes.line(("warning", "yellow"), f" {warning}")
    return loaded


def check_model(loaded: LoadedSettings) -> None:
    """Raise for a model that does not exist now, and not for the first client."""
    models = ModelCatalogue(loaded.settings, loaded.environment)
    models.find(models.choose(loaded.settings.model)[0])
