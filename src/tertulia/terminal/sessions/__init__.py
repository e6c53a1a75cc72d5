"""Stored sessions on the screen: the list to choose from, and any moment of one of them again."""
