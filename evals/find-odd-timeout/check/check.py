from eval_run import answer, changed_files

lines = [line.strip().strip("`*") for line in answer.splitlines()]
assert "FILE: service_3.py" in lines and "TIMEOUT: 3" in lines, answer
assert not changed_files(), "something was changed"
