"""TODO patch."""
