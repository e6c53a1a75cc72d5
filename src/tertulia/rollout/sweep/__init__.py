"""Erases what has expired, and removes sessions beyond the configured age, number or size."""
