"""Executors that are commands: the program is started once for each task."""
