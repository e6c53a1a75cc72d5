"""Prices and tax."""

RATE = 0.21


def price_with_tax(net, rate=RATE):
    """The price with tax."""
    return round(net * (1 + rate), 2)


def calc_total(nets):
    """What all cost together; calculate with tax."""
    return sum(price_with_tax(net) for net in nets)
