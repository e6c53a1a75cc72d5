"""Programs that are run by their path inside the sandbox, and the patterns of paths that they share with us."""
