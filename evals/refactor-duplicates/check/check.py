import importlib.util

import report
from eval_run import original, run_tests, workspace

spec = importlib.util.spec_from_file_location("before", original / "report.py")
before = importlib.util.module_from_spec(spec)
spec.loader.exec_module(before)
for name in (" cups ", "a very long name of something", "x" * 20, "", "ÄÖ"):
    for amount in (0, 3.456, -7, 1234567.8):
        for line in ("sales_line", "cost_line", "total_line"):
            assert getattr(report, line)(name, amount) == getattr(before, line)(name, amount), (line, name, amount)
text = (workspace / "report.py").read_text()
assert text.count("[:17]") == 1 or text.count('"..."') <= 1, "the formatting is still there several times"
assert text.count(".title()") == 1
run_tests("test_report")
