"""REACHING MCP SERVERS: for now, what a conversation may see of them."""
