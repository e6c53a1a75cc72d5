import counter
from eval_run import workspace

one, two = counter.Counter(), counter.Counter()
one.add("a")
one.add("a")
two.add("b")
assert (one.count("a"), two.count("a"), one.count(), two.count()) == (2, 0, 2, 1)
one.reset()
assert (one.count("a"), one.count(), two.count("b")) == (0, 0, 1)
counter.add("x")
assert (counter.count("x"), counter.count(), two.count("x")) == (1, 1, 0)
counter.reset()
assert counter.count() == 0
assert "global " not in (workspace / "counter.py").read_text(), "there is still a global statement"
