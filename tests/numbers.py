"""Which numbered requirements (S000-01 … S004-37) and hardening cases (A1 … I6) the tests name.

`python -m tests.numbers` prints them, one a line, with the tests that name each; tests/numbers.txt lists those that
must be named by one (`tests/test_numbers.py`), so that no promise is lost when tests are merged or cut.

tests/findings.txt lists what was found under attack before the first release, a fact a line, with a test that fails
without its fix.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
LIST = TESTS / "numbers.txt"
FINDINGS = TESTS / "findings.txt"
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


def findings() -> list[tuple[str, str]]:
    """Each fact that was found, behind the number of its finding, and the test that holds it."""
    rows = [line.partition(" | ") for line in FINDINGS.read_text().splitlines()]
    return [(fact, test) for fact, _, test in rows]


def missing_tests() -> list[str]:
    """Those of the findings' tests that there are not."""
    files: dict[str, set[str]] = {}
    for _, test in findings():
        file, _, _ = test.partition("::")
        if file not in files and (TESTS / file).is_file():
            files[file] = {found.name for found in _tests(ast.parse((TESTS / file).read_text()))}
    wanted = [test.partition("::") for _, test in findings()]
    return [f"{file}::{name}" for file, _, name in wanted if name not in files.get(file, set())]


def wanted() -> list[str]:
    """Those that must be named."""
    return LIST.read_text().split()


def _tests(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for child in ast.walk(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and child.name.startswith("test_"):
            yield child


if __name__ == "__main__":
    sys.stdout.writelines(f"{number}: {' '.join(tests)}\n" for number, tests in named().items())
