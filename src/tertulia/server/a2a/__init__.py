"""The A2A surface of `tertulia serve`: agents of other programs send tasks to conversations, at `/a2a`."""
