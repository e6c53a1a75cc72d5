"""Configured MCP servers: definitions, files, trust, how each is launched."""
