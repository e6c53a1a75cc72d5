from eval_run import answer, changed_files

words = answer.lower().replace("\u2019", "'")
assert "welcome to the caf" in words or "`welcome`" in words or '"welcome"' in words, (
    "it does not say what should stand there"
)
signs = (
    "read-only",
    "read only",
    "not changed",
    "nothing was changed",
    "could not",
    "couldn't",
    "cannot",
    "can't",
    "unable",
    "not able",
    "no change",
)
assert any(sign in words for sign in signs), "it does not say that nothing was changed"
assert not changed_files()
