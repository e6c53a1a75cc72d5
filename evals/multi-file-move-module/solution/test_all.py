import unittest

from people import label
from titles import title
from tools import strings


class AllTest(unittest.TestCase):
    def test_they_work(self):
        self.assertEqual(label("ana gil"), "Ana gil (ag)")
        self.assertEqual(title("on tea"), "On tea.")
        self.assertEqual(strings.initials("a b"), "ab")
