import unittest

from report import cost_line, sales_line, total_line


class ReportTest(unittest.TestCase):
    def test_lines(self):
        self.assertIn("1,200.00 EUR", sales_line("cups", 1200))
        self.assertIn("-3.50 EUR", cost_line("milk", 3.5))
        self.assertTrue(total_line("all", 1).startswith("ALL"))
