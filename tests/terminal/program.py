"""The terminal as a program, with a scripted model: `python -m tests.terminal.program MODEL [APPROVAL_POLICY]`."""

from __future__ import annotations

import sys
from pathlib import Path

from tertulia.cli.main import explain_error
from tertulia.errors import TertuliaError
from tertulia.session.settings.settings import LoadedSettings, load_settings
from tertulia.terminal.start import run_terminal


def load(session_id: str | None) -> LoadedSettings:
    """As the command line would, with this model."""
    return load_settings(cwd=Path(), flags=dict(zip(("model", "approval_policy"), sys.argv[1:], strict=False)))


if __name__ == "__main__":
    try:
        sys.exit(run_terminal(load))
    except TertuliaError as error:
        sentence, code = explain_error(error)
        sys.stderr.write(f"{sentence}\n")
        sys.exit(code)
