"""Shapes."""

import math


def area(shape):
    if shape["kind"] == "circle":
        return math.pi * shape["radious"] ** 2
    return shape["width"] * shape["height"]
