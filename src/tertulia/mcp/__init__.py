"""MCP: servers that a session uses (configured, connected, shared, limited), and serving tools to MCP clients."""
