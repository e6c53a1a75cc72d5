"""TODO prompt."""
