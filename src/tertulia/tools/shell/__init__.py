"""Commands: asked for, approved, run, and kept running."""
