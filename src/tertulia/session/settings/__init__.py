"""Settings: files, environment and flags, parsed, layered, each with its origin."""
