"""Conversations, and the broker's tools, as an MCP server."""
