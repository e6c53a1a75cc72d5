import unittest

from text_tools import shorten


class ShortenTest(unittest.TestCase):
    def test_a_short_text_stays(self):
        self.assertEqual(shorten("abc", 3), "abc")

    def test_a_long_text_ends_with_an_ellipsis(self):
        self.assertEqual(shorten("abcdef", 4), "abc…")


if __name__ == "__main__":
    unittest.main()
