"""The shop."""

import prices
from prices import calc, calc_total


def bill(nets):
    return {"lines": [calc(net) for net in nets], "total": calc_total(nets), "first": prices.calc(nets[0])}
