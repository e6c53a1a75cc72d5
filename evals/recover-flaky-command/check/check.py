import hashlib
import json

from eval_run import original, workspace

assert (workspace / "fetch.py").read_text() == (original / "fetch.py").read_text(), "fetch.py was changed"
entries = json.loads((workspace / "data.json").read_text())
assert entries == [hashlib.sha256(str(number).encode()).hexdigest()[:8] for number in range(17)]
assert int((workspace / "tries.txt").read_text()) >= 3
assert (workspace / "count.txt").read_text().strip() == "17"
