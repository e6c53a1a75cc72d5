"""Git worktrees as the workspaces of conversations: made, committed and removed outside the sandbox, by a git that
starts no other program.
"""
