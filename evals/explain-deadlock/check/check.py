from eval_run import answer, original, workspace

def files(folder):
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found

words = answer.lower()
assert "deadlock" in words or "wait" in words, "it does not say what happens"
assert "lock" in words
assert "order" in words or "sort" in words, "it does not name the remedy: one order of locks"
assert "source" in words and "target" in words or "opposite" in words or "reverse" in words
assert files(workspace) == files(original), "something was changed"
