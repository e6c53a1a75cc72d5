"""Stored sessions as tests: what was asked in one, of which files it began, and the same asked of another model."""
