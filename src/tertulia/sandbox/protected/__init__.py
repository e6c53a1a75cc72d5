"""TODO protected."""
