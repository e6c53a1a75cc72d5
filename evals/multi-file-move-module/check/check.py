from eval_run import run_tests, workspace

assert not (workspace / "helpers.py").exists(), "helpers.py is still there"
from tools.strings import initials, upper_first

assert (upper_first("ab"), initials("c d")) == ("Ab", "cd")
from people import label
from titles import title

assert (label("ana gil"), title("on tea")) == ("Ana gil (ag)", "On tea.")
run_tests("test_all")
