"""WHAT WAS SAID: segments of frozen items, paired, bounded, encoded once."""
