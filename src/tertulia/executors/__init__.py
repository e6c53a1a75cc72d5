"""HANDING A TASK TO ANOTHER AGENT: its prompt with what was said before, and its output as our own news."""
