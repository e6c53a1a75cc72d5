"""Configured MCP servers: their definitions, the files they stand in, trust, and how each is launched."""
