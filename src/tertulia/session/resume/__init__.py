"""TODO resume."""
