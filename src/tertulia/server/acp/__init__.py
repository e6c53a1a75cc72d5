"""TODO acp."""
