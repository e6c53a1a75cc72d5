"""The MCP servers of a session, and a session's tools served over MCP."""
