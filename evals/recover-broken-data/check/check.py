from eval_run import original, workspace

assert (workspace / "total.txt").read_text().strip() == "143", "not the right sum"
assert (workspace / "sum.py").read_text() == (original / "sum.py").read_text(), "the program was changed"
assert (workspace / "data" / "b.txt").read_text().split() == ["1", "2", "10"]
