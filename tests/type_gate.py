"""The strict types of `make check`: `python -m tests.type_gate` checks the files whose types can be others than before.

What the checker says of a file depends on the file, on all that it imports, on the settings and on what is installed.
A file whose digest of these passed before is passed over: after a change of one file, seven of eight are, on average.
The digests are below .venv and gone with it, and `--all` does without them. Nothing is noted of a run that failed.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PASSED = ".venv/.types_passed.json"
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n#]+)|import[ \t]+([\w., \t]+))", re.MULTILINE
)
_ENDS = (".py", ".pyi", "/__init__.py", "/__init__.pyi")


class TypedTree:
    """The files that are checked below a folder, and a digest of all that each depends on."""

    def __init__(self, root: Path) -> None:
        self._root = root
        settings = (root / "pyproject.toml").read_text()
        table = tomllib.loads(settings)["tool"]["basedpyright"]
        self._places = [str(root), *(str(root / place) for place in table["extraPaths"])]
        self.files = sorted(_python_below(path for pattern in table["include"] for path in root.glob(pattern)))
        """Those that are checked; they can import any that is there."""
        self._there = set(_python_below({root / Path(pattern).parts[0] for pattern in table["include"]}))
        self._surroundings = settings + (root / "requirements.lock").read_text() + sys.version

    def digests(self) -> dict[str, str]:
        """By the name of each file."""
        return {file.removeprefix(f"{self._root}/"): self._digest(file) for file in self.files}

    def _digest(self, file: str) -> str:
        needed, open_ends = {file}, [file]
        while open_ends:
            new = self._imports(open_ends.pop()) - needed
            needed |= new
            open_ends += new
        text = "\n".join([self._surroundings, *(f"{name} {self._content(name)}" for name in sorted(needed))])
        return hashlib.sha256(text.encode()).hexdigest()

    @cache  # noqa: B019 - as long as the program
    def _imports(self, file: str) -> set[str]:
        """Files of the tree that a file names in an import, wherever it stands."""
        names: set[str] = set()
        for module, members, modules in _IMPORT.findall(Path(file).read_text(encoding="utf-8")):
            if module:
                names |= {module, *(f"{module}.{member}" for member in re.findall(r"\w+", members))}
            else:
                names |= {name.split()[0] for name in modules.split(",") if name.strip()}
        places = (*self._places, str(Path(file).parent))
        paths = [f"{place}/{name.replace('.', '/')}" for name in names for place in places]
        return self._there.intersection(path + end for path in paths for end in _ENDS)

    @cache  # noqa: B019 - as long as the program
    def _content(self, file: str) -> str:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def _python_below(folders: Iterable[Path]) -> Iterator[str]:
    for folder in folders:
        yield from (str(path) for path in folder.rglob("*.py*") if path.suffix in (".py", ".pyi"))


def main(arguments: list[str]) -> int:
    """The exit code of the checker; 0 where nothing is to be checked."""
    passed_file = ROOT / PASSED
    known = passed_file.exists() and "--all" not in arguments
    passed: dict[str, str] = json.loads(passed_file.read_text()) if known else {}
    digests = TypedTree(ROOT).digests()
    changed = [file for file, digest in digests.items() if passed.get(file) != digest]
    if changed:
        # None is named where all are meant: the settings say which those are.
        files = changed if len(changed) < len(digests) else []
        command = [str(Path(sys.executable).with_name("basedpyright")), *files]
        if code := subprocess.run(command, cwd=ROOT, check=False).returncode:
            return code
    passed_file.write_text(json.dumps(digests))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
