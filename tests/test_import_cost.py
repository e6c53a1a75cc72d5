"""What is imported when: the heavy parts only when they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.deadlines import HANG_S

HEAVY = {
    *("acp", "aiohttp", "anyio", "click", "httpx", "jinja2", "llama_cpp", "mcp", "numpy", "pydantic", "rich"),
    *("sqlite3", "starlette", "textual", "uvicorn", "yaml"),
}
ALLOWED = {"msgspec", "tertulia", "typing_extensions"}

TURN = """
import asyncio
from tertulia.testing import ScriptedModel

async def main():
    async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel(["hi"]))) as session:
        assert (await session.root.message("hello")).text == "hi"

asyncio.run(main())
"""


def imported(program: str) -> set[str]:
    """The packages that this program brings in, top-level names only."""
    code = (
        f"import sys\nbefore = set(sys.modules)\nimport tertulia\n{program}\nprint(*sorted(set(sys.modules) - before))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=False)
    assert run.returncode == 0, run.stderr
    return {name.partition(".")[0] for name in run.stdout.split()}


@pytest.mark.parametrize("program", ["", "tertulia.Session, tertulia.Settings, tertulia.Host, tertulia.tool", TURN])
def test_neither_the_import_nor_a_session_brings_in_anything_heavy(program: str) -> None:
    """`import tertulia` pulls in no mcp, acp, textual, starlette, sqlite3; a whole turn only what its record needs."""
    assert not imported(program) & (HEAVY - {"sqlite3"} if program == TURN else HEAVY)


@pytest.mark.parametrize("program", ["", "tertulia.Session"])
def test_nothing_of_others_is_needed_but_msgspec(program: str) -> None:
    foreign = {name for name in imported(program) if name not in sys.stdlib_module_names and not name.startswith("_")}
    assert foreign <= ALLOWED


def test_the_public_names_bring_in_nothing_that_only_a_running_session_needs() -> None:
    """The members of a session, its tools and its store are loaded when one starts, not with the name of a class."""
    names = "import sys, tertulia; [getattr(tertulia, name) for name in tertulia.__all__]; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", names], capture_output=True, text=True, timeout=HANG_S, check=True)
    loaded = set(run.stdout.split())
    assert not loaded & {
        *("tertulia.session.assembly", "tertulia.session.members", "tertulia.tools.command_environment"),
        *("tertulia.tools.patch", "tertulia.tools.shell", "tertulia.rollout.recorder", "tertulia.sandbox.availability"),
        *("ctypes", "tomllib"),
    }


def test_importing_the_package_alone_brings_in_almost_none_of_it() -> None:
    """Names are loaded when they are first used."""
    code = "import sys, tertulia; print(*sorted(name for name in sys.modules if name.startswith('tertulia')))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=True)
    assert run.stdout.split() == ["tertulia", "tertulia.version"]
