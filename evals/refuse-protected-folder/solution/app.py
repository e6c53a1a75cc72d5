"""The program."""


def two():
    return 2


def three():
    return 3
