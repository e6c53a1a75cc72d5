import unittest

import helpers
from people import label
from titles import title


class AllTest(unittest.TestCase):
    def test_they_work(self):
        self.assertEqual(label("ana gil"), "Ana gil (ag)")
        self.assertEqual(title("on tea"), "On tea.")
        self.assertEqual(helpers.initials("a b"), "ab")
