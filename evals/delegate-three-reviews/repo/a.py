def mean(numbers):
    """The mean; 0 for no numbers."""
    return sum(numbers) / len(numbers)
