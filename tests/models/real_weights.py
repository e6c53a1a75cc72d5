"""Where the tests find the embedded model, if it is here: $TERTULIA_TEST_HOME, or else where people have it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tertulia.models.local.weights import WEIGHTS, can_run
from tertulia.session.settings.environment import Environment

HOME = Path(os.environ.get("TERTULIA_TEST_HOME") or Environment.read(os.environ).home)
WEIGHTS_FILE = WEIGHTS[0].path(HOME)


def why_not() -> str | None:
    """What is missing."""
    if not can_run():
        return "the embedded model cannot run: pip install 'tertulia[local]'"
    if not WEIGHTS[0].is_pulled(HOME):
        return f"the embedded model is not in {HOME}: tertulia models pull smollm2"
    return None


needs_the_embedded_model = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")
