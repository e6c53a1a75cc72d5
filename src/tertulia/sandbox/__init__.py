"""Running a command confined, with limits, and ending all of it."""
