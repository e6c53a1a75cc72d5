"""Writes the golden screens anew: `python -m tests.terminal.goldens [folder of tests]`."""

from __future__ import annotations

import os
import sys

import pytest

from tests.terminal.screen import RENEW

if __name__ == "__main__":
    os.environ[RENEW] = "1"
    sys.exit(pytest.main(["-q", "-k", "golden", *(sys.argv[1:] or ["tests/terminal"])]))
