"""What a child has done in its worktree comes into its caller's workspace: all or nothing, also when the process is
killed.
"""
