from eval_run import original, run_tests, workspace

before = (original / "test_inventory.py").read_text()
assert (workspace / "test_inventory.py").read_text() == before, "the tests were changed"
run_tests("test_inventory")
