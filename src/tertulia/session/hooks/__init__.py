"""Asks the user's own programs and functions about tool calls, tasks and approvals."""
