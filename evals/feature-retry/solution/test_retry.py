import unittest

from retry import retry


class RetryTest(unittest.TestCase):
    def test_a_call_that_succeeds_later_returns(self):
        calls = []

        @retry(2)
        def work():
            calls.append(1)
            if len(calls) < 2:
                raise OSError
            return 7

        self.assertEqual(work(), 7)
