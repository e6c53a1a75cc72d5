from eval_run import run_tests
from retry import retry

calls = []


@retry(3, (KeyError,))
def work(fail, error=KeyError):
    """Does some work."""
    calls.append(fail)
    if len(calls) <= fail:
        raise error(len(calls))
    return "done"


assert (work.__name__, work.__doc__) == ("work", "Does some work.")
assert work(2) == "done" and len(calls) == 3
calls.clear()
try:
    work(9)
except KeyError as error:
    assert error.args == (3,), "not the last exception"
else:
    raise AssertionError("nothing was raised")
assert len(calls) == 3
calls.clear()
try:
    work(9, error=OSError)
except OSError:
    pass
assert len(calls) == 1, "another exception was tried again"
try:
    retry(0)
except ValueError:
    pass
else:
    raise AssertionError("retry(0) is accepted")
run_tests("test_retry")
