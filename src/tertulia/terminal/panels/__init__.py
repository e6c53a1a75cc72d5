"""The panels around the transcript: the conversations, details of the seen one, and the status line."""
