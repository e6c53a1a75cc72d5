"""The items of a conversation in memory: frozen segments, paired, bounded, encoded once."""
