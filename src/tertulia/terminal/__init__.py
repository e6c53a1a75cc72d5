"""The screen: every conversation of a session at once, in a terminal. Textual is imported here and nowhere else."""
