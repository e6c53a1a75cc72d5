"""Workspaces of a conversation's own: git worktrees, made, committed and removed outside the sandbox by a git that
starts no other program.
"""
