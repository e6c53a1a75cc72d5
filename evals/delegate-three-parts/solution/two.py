def chunks(items, size):
    """The items in lists of that size; the last may be shorter."""
    return [items[at : at + size] for at in range(0, len(items), size)]
