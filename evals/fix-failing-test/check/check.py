import unittest

from eval_run import original, workspace

def run_tests(*names):
    loader = unittest.defaultTestLoader
    suite = loader.loadTestsFromNames(names)
    result = unittest.TextTestRunner(verbosity=0).run(suite)
    assert result.testsRun, "no test was run"
    assert result.wasSuccessful(), "the tests fail"

before = (original / "test_inventory.py").read_text()
assert (workspace / "test_inventory.py").read_text() == before, "the tests were changed"
run_tests("test_inventory")
