"""TODO exec."""
