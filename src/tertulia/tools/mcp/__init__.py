"""TODO mcp."""
