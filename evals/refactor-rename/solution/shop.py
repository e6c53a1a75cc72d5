"""The shop."""

import prices
from prices import price_with_tax, calc_total


def bill(nets):
    return {"lines": [price_with_tax(net) for net in nets], "total": calc_total(nets), "first": prices.price_with_tax(nets[0])}
