"""Stored sessions on the screen: a list to choose from, and the replay of one of them."""
