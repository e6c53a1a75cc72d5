"""Which files the gate of types checks again after a change."""

from __future__ import annotations

import pytest

from tests.tables import each_row
from tests.type_gate import TypedTree

FILES = {
    "pyproject.toml": '[tool.basedpyright]\ninclude = ["src", "examples"]\nextraPaths = ["src"]\n',
    "requirements.lock": "msgspec==1\n",
    "src/app/__init__.py": "from app.top import run\n",
    "src/app/errors.py": "class AppError(Exception): ...\n",
    "src/app/parts/__init__.py": "",
    "src/app/parts/one.py": "from app.errors import AppError\n",
    "src/app/parts/two.py": "def two() -> None:\n    from app.parts import (\n        one,\n    )\n",
    "src/app/top.py": "import app.parts.two, app.errors\n",
    "examples/hello.py": "import app\n",
    "examples/alone.py": "import os\n",
}
PARTS = {"src/app/parts/one.py", "src/app/parts/two.py", "src/app/top.py", "src/app/__init__.py", "examples/hello.py"}
EVERYTHING = {file for file in FILES if file.endswith(".py")}


@each_row(
    "name, changed",
    [
        ("examples/alone.py", {"examples/alone.py"}),
        ("src/app/top.py", {"src/app/top.py", "src/app/__init__.py", "examples/hello.py"}),
        ("src/app/parts/one.py", PARTS),
        ("src/app/errors.py", PARTS | {"src/app/errors.py"}),
        ("requirements.lock", EVERYTHING),
        ("pyproject.toml", EVERYTHING),
    ],
)
def test_a_file_is_checked_again_when_it_or_what_it_imports_is_another(
    name: str, changed: set[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("tree")
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    before = TypedTree(folder).digests()
    (folder / name).write_text(FILES[name] + "# changed\n")
    after = TypedTree(folder).digests()
    assert {file for file, digest in after.items() if before[file] != digest} == changed
