"""Tools of MCP servers as a conversation calls them, and their approval."""
