"""Customers."""

import orders


def name_of(customer):
    return customer["name"].title()


def balance(customer):
    return orders.format_money(customer["cents"])
