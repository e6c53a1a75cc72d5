"""The client side: a connection to one MCP server over stdio or HTTP, with repair and limits for what it sends."""
