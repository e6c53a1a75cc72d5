"""TODO scripted."""
