import unittest

import text_tools
from eval_run import run_tests

for title, expected in {
    "Hello, World!": "hello-world",
    "Crème brûlée": "creme-brulee",
    "  --a  b--  ": "a-b",
    "2 + 2 = 4": "2-2-4",
    "": "",
    "!!!": "",
}.items():
    assert text_tools.slug(title) == expected, f"slug({title!r}) is {text_tools.slug(title)!r}"
assert text_tools.shorten("abcdef", 4) == "abc…"
run_tests("test_text_tools")
# The new tests must notice a slug that does nothing.
import test_text_tools

text_tools.slug = test_text_tools.slug = lambda title: title
suite = unittest.defaultTestLoader.loadTestsFromModule(test_text_tools)
result = unittest.TextTestRunner(stream=open("/dev/null", "w")).run(suite)
assert not result.wasSuccessful(), "no test tries slug"
