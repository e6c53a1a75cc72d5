"""Tools of MCP servers, approved and called."""
