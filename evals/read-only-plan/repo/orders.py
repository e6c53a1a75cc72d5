"""Orders."""

import customers


def format_money(cents):
    return f"{cents / 100:.2f} EUR"


def total(order):
    return format_money(sum(order["cents"])) + " for " + customers.name_of(order["customer"])
