"""The session and its conversations: settings, operations, assembly, shutdown."""
