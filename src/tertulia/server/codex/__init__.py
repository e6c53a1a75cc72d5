"""TODO codex."""
