import re

import prices
import shop
from eval_run import original, workspace

assert not hasattr(prices, "calc"), "the old name is still there"
assert prices.price_with_tax(100) == 121.0
assert shop.bill([100, 10]) == {"lines": [121.0, 12.1], "total": 133.1, "first": 121.0}
for name in ("prices.py", "shop.py", "README.md"):
    before, after = (original / name).read_text(), (workspace / name).read_text()
    expected = re.sub(r"\bcalc\b", "price_with_tax", before)
    assert after.split() == expected.split() or sorted(after.split()) == sorted(expected.split()), f"{name}: {after}"
