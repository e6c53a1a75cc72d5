"""TODO sessions."""
