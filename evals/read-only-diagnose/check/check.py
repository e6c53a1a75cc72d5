from eval_run import answer, original, workspace

def files(folder):
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found

lines = [line.strip().strip("`*") for line in answer.splitlines()]
assert "FIX: shapes.py:8" in lines or "FIX: ./shapes.py:8" in lines, answer
assert "radius" in answer
assert files(workspace) == files(original)
