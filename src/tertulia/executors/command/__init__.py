"""Agents that are run once a task, as a command."""
