"""Which numbered requirements (S000-01 … S004-37) and hardening cases (A1 … I6) the tests name.

`python -m tests.numbers` prints them, one a line, with the tests that name each; tests/numbers.txt lists those that
must be named by one (`tests/test_numbers.py`), so that no promise is lost when tests are merged or cut.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
LIST = TESTS / "numbers.txt"
_NUMBER = re.compile(r"\bS00[0-4]-\d\d\b|\b[A-I][1-9]\d?\b")


def named() -> dict[str, list[str]]:
    """Each number, and the tests that name it in their docstring or, in small letters, in their name."""
    numbers: dict[str, list[str]] = {}
    for file in sorted(TESTS.rglob("test_*.py")):
        for test in _tests(ast.parse(file.read_text())):
            text = f"{ast.get_docstring(test) or ''} {' '.join(test.name.upper().split('_'))}"
            for number in set(_NUMBER.findall(text)):
                numbers.setdefault(number, []).append(f"{file.relative_to(TESTS)}::{test.name}")
    return dict(sorted(numbers.items()))


def wanted() -> list[str]:
    """Those that must be named."""
    return LIST.read_text().split()


def _tests(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for child in ast.walk(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and child.name.startswith("test_"):
            yield child


if __name__ == "__main__":
    sys.stdout.writelines(f"{number}: {' '.join(tests)}\n" for number, tests in named().items())
