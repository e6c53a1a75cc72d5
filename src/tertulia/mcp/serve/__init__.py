"""The server side: tools and resources of ours, served to MCP clients through the SDK."""
