import csv
import io

from export import to_csv

assert to_csv([["a", 1], ["b", 2.5]]) == "a,1\nb,2.5\n", "plain values changed"
rows = [["a,b", 'say "yes"', "two\nlines", ""], ["'", ";", " x ", "\t"]]
found = list(csv.reader(io.StringIO(to_csv(rows), newline="")))
assert found == rows, found
assert to_csv([]) == ""
