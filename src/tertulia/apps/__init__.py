"""TODO apps."""
