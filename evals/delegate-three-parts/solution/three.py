def invert(mapping):
    """Keys by value; where several keys have one value, the list of them in order. Always lists."""
    found = {}
    for key, value in mapping.items():
        found.setdefault(value, []).append(key)
    return found
