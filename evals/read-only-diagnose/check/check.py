from eval_run import answer, changed_files

lines = [line.strip().strip("`*") for line in answer.splitlines()]
assert "FIX: shapes.py:8" in lines or "FIX: ./shapes.py:8" in lines, answer
assert "radius" in answer
assert not changed_files()
