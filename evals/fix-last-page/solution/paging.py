"""Cuts lists into pages."""


def page_count(items: int, size: int) -> int:
    """How many pages so many items take."""
    return -(-items // size)


def page(items: list, number: int, size: int) -> list:
    """The items of one page; the first page is number 1."""
    return items[(number - 1) * size : number * size]
