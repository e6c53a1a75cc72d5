"""Prints the report of a year. Any Python 3 will do."""

import sys

year = int(sys.argv[sys.argv.index("--year") + 1])
print(f"Report of {year}: {sum(divmod(year, 7))}")
