import unittest

from cache import Cache


class CacheTest(unittest.TestCase):
    def test_the_entry_that_was_used_longest_ago_goes(self):
        cache = Cache(limit=2)
        cache.set("a", 1)
        cache.set("b", 2)
        cache.get("a")
        cache.set("c", 3)
        self.assertIsNone(cache.get("b"))
        self.assertEqual(len(cache), 2)


if __name__ == "__main__":
    unittest.main()
