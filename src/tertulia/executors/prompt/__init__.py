"""The history of a conversation as a prompt for an executor."""
