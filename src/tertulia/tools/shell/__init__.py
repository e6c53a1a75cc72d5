"""TODO shell."""
