import re

from eval_run import answer, original, workspace

def files(folder):
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found

assert 20 <= len(answer.split()) <= 200, f"{len(answer.split())} words"
places = [re.search(rf"\b{name}\b", answer) for name in ("serve", "decode", "dispatch", "encode")]
assert all(places), "a function is missing"
starts = [place.start() for place in places]
assert starts == sorted(starts), "not in the order of the calls"
assert "fallback" in answer and "greet" in answer
assert files(workspace) == files(original), "something was changed"
