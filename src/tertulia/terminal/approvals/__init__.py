"""What persons are asked: the panel above the composer, the forms of MCP servers, and the list of grants."""
