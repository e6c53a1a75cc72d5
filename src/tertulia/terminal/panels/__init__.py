"""What stands around the transcript: the conversations, what a person may know of the seen one, and the status line."""
