"""Moves words of prose lines that are too long to the next line."""
import json, re, subprocess, sys
from pathlib import Path
root, ruff = Path(sys.argv[1]), sys.argv[2]
for _ in range(6):
    out = json.loads(subprocess.run([ruff, "check", "--select", "E501", "--output-format", "json", "."], cwd=root, capture_output=True, text=True).stdout)
    todo = {}
    for e in out: todo.setdefault(e["filename"], []).append(e["location"]["row"])
    changed = False
    for name, rows in todo.items():
        p = Path(name); lines = p.read_text().split("\n")
        for row in sorted(rows, reverse=True):
            line = lines[row - 1]; stripped = line.lstrip(); indent = line[: len(line) - len(stripped)]
            code = re.search(r'[=(){}\[\]]|f"', stripped) and not stripped.startswith(("#", '"""'))  and "`" not in stripped and not re.match(r"[A-Z][a-z]+ ", stripped)
            if code or "# fmt" in line or stripped.startswith("RecordedSegment"): continue
            mark = "# " if stripped.startswith("# ") else ""
            closing = line.endswith('"""') and not (stripped.startswith('"""') and stripped.count('"""') == 1)
            at = line.rfind(" ", 0, 120)
            head, tail = line[:at].rstrip(), line[at + 1:]
            nxt = lines[row] if row < len(lines) else ""
            if closing:
                if stripped.startswith('"""'):
                    continue
                lines[row - 1:row] = [head, indent + tail]
            elif nxt.strip() and nxt.startswith(indent + mark) and not nxt.strip().startswith(('"""', "-", "|", "*")) and (bool(mark) == nxt.strip().startswith("#")):
                lines[row - 1] = head; lines[row] = indent + mark + tail + " " + nxt.strip()[len(mark):]
            else:
                lines[row - 1:row] = [head, indent + mark + tail]
            changed = True
        p.write_text("\n".join(lines))
    if not changed: break
