"""Fetches the data: the first two tries fail, as a busy server would."""

import hashlib
import json
import sys
from pathlib import Path

tries = Path("tries.txt")
count = int(tries.read_text()) + 1 if tries.exists() else 1
tries.write_text(str(count))
if count < 3:
    sys.exit(f"try {count}: the server is busy, try again")
entries = [hashlib.sha256(str(number).encode()).hexdigest()[:8] for number in range(17)]
Path("data.json").write_text(json.dumps(entries))
