"""The program."""


def two():
    return 2
