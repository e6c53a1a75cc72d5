def is_even(number):
    """Whether it is even."""
    return number % 2 == 1
