"""Executors that keep running from task to task, reached by the Agent Client Protocol (ACP)."""
