"""The MCP servers of a session: which are configured, where they run; and its tools served to MCP clients."""
