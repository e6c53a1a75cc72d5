from pathlib import Path

from cache import Cache
from eval_run import run_tests

free = Cache()
for number in range(100):
    free.set(number, number)
assert len(free) == 100
cache = Cache(limit=2)
cache.set("a", 1)
cache.set("b", 2)
assert cache.get("a") == 1
cache.set("c", 3)
assert (cache.get("b"), cache.get("a"), cache.get("c")) == (None, 1, 3), "the wrong entry went"
cache.set("a", 4)
cache.set("d", 5)
assert (cache.get("c"), cache.get("a"), len(cache)) == (None, 4, 2)
none = Cache(limit=3)
none.set("x", None)
assert none.get("x", "default") is None
assert Path("test_cache.py").is_file(), "there are no tests"
run_tests("test_cache")
