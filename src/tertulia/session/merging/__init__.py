"""Merges the worktree of a child into its caller's workspace: all or nothing, also when the process is killed."""
