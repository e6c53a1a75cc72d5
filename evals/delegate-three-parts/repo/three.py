def invert(mapping):
    """Keys by value; where several keys have one value, the list of them in order. Always lists."""
    raise NotImplementedError
