"""TODO pool."""
