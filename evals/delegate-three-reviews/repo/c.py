def last(items):
    """The last item; None where there is none."""
    return items[len(items)] if items else None
