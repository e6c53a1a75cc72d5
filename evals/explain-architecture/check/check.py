import re

from eval_run import answer, changed_files

assert 20 <= len(answer.split()) <= 200, f"{len(answer.split())} words"
places = [re.search(rf"\b{name}\b", answer) for name in ("serve", "decode", "dispatch", "encode")]
assert all(places), "a function is missing"
starts = [place.start() for place in places]
assert starts == sorted(starts), "not in the order of the calls"
assert "fallback" in answer and "greet" in answer
assert not changed_files(), "something was changed"
