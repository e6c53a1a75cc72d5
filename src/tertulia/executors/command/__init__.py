"""TODO command."""
