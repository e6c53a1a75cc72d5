"""One connection to one MCP server: transports, repair of answers, errors."""
