import unittest

from text_tools import shorten, slug


class ShortenTest(unittest.TestCase):
    def test_a_short_text_stays(self):
        self.assertEqual(shorten("abc", 3), "abc")

    def test_a_long_text_ends_with_an_ellipsis(self):
        self.assertEqual(shorten("abcdef", 4), "abc…")


class SlugTest(unittest.TestCase):
    def test_words_are_joined_by_hyphens(self):
        self.assertEqual(slug("Hello, World!"), "hello-world")

    def test_accents_are_lost(self):
        self.assertEqual(slug("Crème brûlée"), "creme-brulee")


if __name__ == "__main__":
    unittest.main()
