import json
import subprocess
import sys
import tempfile
from pathlib import Path


def run(*words):
    done = subprocess.run([sys.executable, "count.py", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


with tempfile.TemporaryDirectory() as name:
    one, other = Path(name, "one"), Path(name, "other")
    one.write_text("b a b\n")
    other.write_text("c a\n")
    assert run(str(one), str(other)) == "     2 a\n     2 b\n     1 c\n", "the plain output changed"
    printed = run("--json", str(one), str(other))
    assert printed.count("\n") == 1, "more than one line"
    assert list(json.loads(printed).items()) == [("a", 2), ("b", 2), ("c", 1)], printed
