import unittest

from inventory import Inventory


class InventoryTest(unittest.TestCase):
    def test_the_last_item_can_be_removed(self):
        stock = Inventory()
        stock.add("cup", 2)
        stock.remove("cup", 2)
        self.assertEqual(stock.names(), [])

    def test_more_than_there_is_cannot_be_removed(self):
        stock = Inventory()
        stock.add("cup")
        with self.assertRaises(KeyError):
            stock.remove("cup", 2)
        self.assertEqual(stock.names(), ["cup"])

    def test_what_was_never_there_is_not_listed_afterwards(self):
        stock = Inventory()
        with self.assertRaises(KeyError):
            stock.remove("plate")
        self.assertEqual(stock.names(), [])
