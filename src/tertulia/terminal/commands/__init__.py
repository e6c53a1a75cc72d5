"""Slash commands: the one list of them, what each does, and the pages that they show."""
