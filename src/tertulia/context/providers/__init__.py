"""TODO providers."""
