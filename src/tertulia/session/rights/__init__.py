"""The rights of conversations, explained to people and clients."""
