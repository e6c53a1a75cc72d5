from eval_run import answer, changed_files

lines = [line.strip().strip("`*").replace("`", "") for line in answer.splitlines()]
assert "MOVE: format_money" in [line.removesuffix("()") for line in lines], answer
into = [line.split(":", 1)[1].strip() for line in lines if line.startswith("INTO:")]
assert into and into[-1].endswith(".py") and into[-1] not in ("orders.py", "customers.py"), into
assert not changed_files()
