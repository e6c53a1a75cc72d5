"""Tells the user's own program or a webhook that a task has ended or that an answer is needed."""
