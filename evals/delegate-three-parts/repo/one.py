def vowels(text):
    """How many of a, e, i, o, u are in the text, in lower or upper case."""
    raise NotImplementedError
