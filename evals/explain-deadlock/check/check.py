from eval_run import answer, changed_files

words = answer.lower()
assert "deadlock" in words or "wait" in words, "it does not say what happens"
assert "lock" in words
assert "order" in words or "sort" in words, "it does not name the remedy: one order of locks"
assert "source" in words and "target" in words or "opposite" in words or "reverse" in words
assert not changed_files(), "something was changed"
