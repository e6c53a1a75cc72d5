"""TODO sqlite."""
