"""Limits of memory, files, processes and written bytes."""
