"""TODO masks."""
