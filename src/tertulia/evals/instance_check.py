"""The check of an imported instance, copied into its task: applies the hidden tests, and runs those that must pass.

Runs in the sandbox, as `check.py` beside `instance.json` and `test.patch`. Standard library and git only.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).parent


def restore_tests(names: list[str], original: Path) -> None:
    """Put the files that the tests change back to what they were: a candidate may have changed them too."""
    for name in names:
        path = Path(name)
        if path.is_file() or path.is_symlink():
            path.unlink()
        if (original / name).is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(original / name, path)


def main() -> None:
    """Judge the workspace, which is the working directory. An exception: it has not passed."""
    instance = json.loads((_HERE / "instance.json").read_text())
    restore_tests(instance["test_files"], Path(sys.modules["eval_run"].original))
    if (_HERE / "test.patch").stat().st_size:
        # So that git takes no repository for its own in which the workspace happens to lie.
        alone = ["env", f"GIT_CEILING_DIRECTORIES={Path.cwd().parent}"]
        subprocess.run([*alone, "git", "apply", "--whitespace=nowarn", str(_HERE / "test.patch")], check=True)
    subprocess.run([*instance["command"], *instance["tests"]], check=True)


if __name__ == "__main__":
    main()
