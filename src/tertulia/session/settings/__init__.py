"""TODO settings."""
