"""I write typed Python, and want an answer as an object of my own class, known to my type checkers.

Issue 19, "Done when", journey 10: read by mypy and pyright, both strict, then run; on this Python, and on those that
TERTULIA_TEST_PYTHONS names, separated by colons, each with the package installed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.deadlines import HANG_S
from tests.journeys.person import Person
from tests.journeys.provider import serving

PROGRAM = """
from dataclasses import dataclass

import tertulia


@dataclass
class Invoice:
    customer: str
    total: float


def read(text: str) -> Invoice:
    reply = tertulia.run(text, output_type=Invoice)
    reply.raise_for_status()
    return reply.output


def total(text: str) -> float:
    return read(text).total


if __name__ == "__main__":
    try:
        print(read("Ana owes 12.50"))
        print(read("no invoice"))
    except tertulia.errors.InvalidOutputError as error:
        print(error.errors[0])
"""
WRONG = PROGRAM.replace("-> float:\n    return read(text).total", "-> str:\n    return read(text).total")
CHECKED_S = 4 * HANG_S
"""A checker alone takes a quarter of a minute of a processor, and may have a tenth of one."""
GOOD = '{"customer": "Ana", "total": 12.5}'
BAD = '{"customer": "Ana"}'


@pytest.mark.timeout(5 * CHECKED_S)
def test_my_class_comes_back_and_both_checkers_know_it(person: Person) -> None:
    program, wrong = person.writes("invoices.py", PROGRAM), person.writes("wrong.py", WRONG)
    here = Path(sys.executable).parent
    for checker in (
        [str(here / "mypy"), "--strict", "--config-file", "/dev/null", "--python-executable", sys.executable],
        [str(here / "basedpyright"), "--level", "error", "--pythonpath", sys.executable],
    ):
        good = person.runs(*checker, str(program), timeout_s=CHECKED_S)
        assert good.code == 0, good.out
        bad = person.runs(*checker, str(wrong), timeout_s=CHECKED_S)
        assert bad.code == 1
        assert '"float"' in bad.out

    # The first answer fits; the second does not, is mended once by the model in vain, and fails with the reason.
    with serving(GOOD, BAD, BAD) as provider:
        person.exports(OPENAI_API_KEY="sk-journey", OPENAI_BASE_URL=provider.url)
        ran = person.runs(sys.executable, str(program))
        assert ran.code == 0, ran.err
        first, second = ran.out.splitlines()
        assert first == "Invoice(customer='Ana', total=12.5)"
        assert "total" in second
        assert len(provider.asked) == 3
        assert "customer" in provider.asked[0].text, "the model is given the schema"


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_every_python_that_can_be_had_runs_it(person: Person, version: str) -> None:
    """What cannot be had is printed with the reason, at the end of the run."""
    named = filter(None, os.environ.get("TERTULIA_TEST_PYTHONS", "").split(":"))
    pythons = [sys.executable, *named]
    found = [python for python in pythons if person.runs(python, "--version").out.startswith(f"Python {version}.")]
    if not found:
        pytest.skip(f"no Python {version} with the package: TERTULIA_TEST_PYTHONS names none, and tests fetch nothing")
    with serving(GOOD, BAD, BAD) as provider:
        person.exports(OPENAI_API_KEY="sk-journey", OPENAI_BASE_URL=provider.url)
        ran = person.runs(found[0], str(person.writes("invoices.py", PROGRAM)))
    assert ran.out.startswith("Invoice("), ran.err
