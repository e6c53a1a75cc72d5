"""`tertulia bench compare`: its options. What it measures is tested in tests/bench."""

from __future__ import annotations

import pytest

from tests.cli.running import Shell


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--peers", "nope"), "there is no peer 'nope', only raw_aiohttp"),
        (("--work", "W9"), "there is no work 'W9', only W1"),
        (("--rounds", "0"), "must be a whole number from 1 to 100"),
        (("--json", "missing/x.json"), "missing/x.json cannot be written"),
    ],
)
def test_a_mistake_is_told_before_anything_is_installed(
    shell: Shell, arguments: tuple[str, ...], sentence: str
) -> None:
    ran = shell.run("bench", "compare", *arguments)
    assert ran.code == 2
    assert sentence in ran.err


def test_help_has_examples(shell: Shell) -> None:
    ran = shell.run("bench", "compare", "--help")
    assert ran.code == 0
    assert "tertulia bench compare --peers tertulia,langgraph --work W1,W4" in ran.out
