"""TODO limits."""
