import unittest

from eval_run import workspace

def run_tests(*names):
    loader = unittest.defaultTestLoader
    suite = loader.loadTestsFromNames(names)
    result = unittest.TextTestRunner(verbosity=0).run(suite)
    assert result.testsRun, "no test was run"
    assert result.wasSuccessful(), "the tests fail"

assert not (workspace / "helpers.py").exists(), "helpers.py is still there"
from tools.strings import initials, upper_first

assert (upper_first("ab"), initials("c d")) == ("Ab", "cd")
from people import label
from titles import title

assert (label("ana gil"), title("on tea")) == ("Ana gil (ag)", "On tea.")
run_tests("test_all")
