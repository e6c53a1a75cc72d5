import limits
from eval_run import workspace
from main import describe
from timer import Timer

assert abs(limits.DEFAULT_S - 1.5) < 1e-9 and abs(limits.limit_s(2) - 3) < 1e-9
now = [10.0]
timer = Timer(lambda: now[0])
now[0] = 11.25
assert abs(timer.elapsed_s() - 1.25) < 1e-9
assert describe(timer) == "1.25 s of 1.50 s: within", describe(timer)
now[0] = 12.0
assert describe(timer) == "2.00 s of 1.50 s: over"
assert describe(timer, 2) == "2.00 s of 3.00 s: within"
assert limits.is_over(1.6) and not limits.is_over(1.4)
for name in ("timer.py", "limits.py", "main.py"):
    text = (workspace / name).read_text()
    assert "_ms" not in text and "_MS" not in text and "1000" not in text, f"{name} still has milliseconds"
