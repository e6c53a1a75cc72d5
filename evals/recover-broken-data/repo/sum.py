"""Adds up the numbers of files, one a line."""

import sys

print(sum(int(line) for name in sys.argv[1:] for line in open(name) if line.strip()))
