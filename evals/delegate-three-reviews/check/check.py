from eval_run import conversations, workspace

answered = [answer for _, answer in conversations if answer.strip()]
assert len(answered) >= 3, f"{len(answered)} colleagues were asked"
lines = {}
for line in (workspace / "REVIEW.md").read_text().splitlines():
    for name in ("a.py", "b.py", "c.py"):
        if name in line and ":" in line:
            lines[name] = line.lower()
assert lines.keys() == {"a.py", "b.py", "c.py"}, lines
assert any(word in lines["a.py"] for word in ("empty", "zero", "no numbers", "division")), lines["a.py"]
assert any(word in lines["b.py"] for word in ("odd", "inverted", "== 1", "wrong way", "opposite", "even")), lines[
    "b.py"
]
assert any(word in lines["c.py"] for word in ("index", "range", "off by one", "off-by-one", "- 1", "-1")), lines["c.py"]
