"""The program."""

from shapes import area

print(area({"kind": "circle", "radius": 2}))
