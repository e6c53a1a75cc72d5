"""Checkpoints of workspaces: recorded by the real git in repositories of ours, and restored all or nothing."""
