"""TODO local."""
