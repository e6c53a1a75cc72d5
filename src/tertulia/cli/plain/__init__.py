"""The terminal as appended lines: nothing that was written is ever written over, and no line is written twice."""
