"""`tertulia mcp`: the configured MCP servers, edited, trusted and tried out."""
