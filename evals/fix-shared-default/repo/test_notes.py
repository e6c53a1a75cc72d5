import unittest

from notes import Note


class NoteTest(unittest.TestCase):
    def test_a_tag_is_added_once(self):
        self.assertEqual(Note("x", []).tag("a").tag("a").tags, ["a"])


if __name__ == "__main__":
    unittest.main()
