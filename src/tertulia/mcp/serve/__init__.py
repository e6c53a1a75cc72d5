"""Being an MCP server, on top of the SDK."""
