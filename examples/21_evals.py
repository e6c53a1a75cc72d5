"""Two candidates measured by one task: who mends the bug? The check is hidden from both."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

TASK = {
    "task.toml": 'kind = "fix"\nprompt = "add in calc.py subtracts. Mend it."\n',
    "repo/calc.py": "def add(a, b):\n    return a - b\n",
    "check/check.py": "from calc import add\nassert add(2, 3) == 5\n",
    "solution/calc.py": "def add(a, b):\n    return a + b\n",
}
MEND = {"tool_calls": [{"name": "shell", "arguments": {"command": ["sed", "-i", "s/-/+/", "calc.py"]}}]}
# Scripts in the place of models; a real one is `-m provider/model`, an executor `--backend codex`.
CANDIDATES = {"careful.json": [MEND, "I mended add."], "lazy.json": ["It looks fine to me."]}


def tertulia(*words: str) -> str:
    command = [sys.executable, "-m", "tertulia", "eval", *words]
    return subprocess.run(command, cwd=work, check=True, stdout=subprocess.PIPE, text=True).stdout


with tempfile.TemporaryDirectory() as folder:
    work = Path(folder)
    for name, text in TASK.items():
        path = work / "suite" / "fix-add" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name, replies in CANDIDATES.items():
        (work / name).write_text(json.dumps(replies))

    # Without any model: the check must fail on the untouched repository, and pass with the solution.
    print(tertulia("check", "suite"), end="")

    models = [word for name in CANDIDATES for word in ("-m", f"scripted/{name}")]
    rows = [json.loads(line) for line in tertulia("suite", *models, "--json").splitlines()]
    for row in rows:
        print(f"{row['name']}: {row['passed']} of {row['runs']}, {row['tokens']:,} tokens")
    assert [row["passed"] for row in rows] == [1, 0]

    # The same command has nothing left to do; results can be compared, and every run replayed.
    print(tertulia("compare", *(f"eval-suite.jsonl#scripted/{name}" for name in CANDIDATES)))
