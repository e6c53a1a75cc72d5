from eval_run import answer, original, workspace

def files(folder):
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found

lines = [line.strip().strip("`*") for line in answer.splitlines()]
assert "FILE: service_3.py" in lines and "TIMEOUT: 3" in lines, answer
assert files(workspace) == files(original), "something was changed"
