"""Tertulia as an MCP server: conversations as tools, and the broker that shares MCP servers between programs."""
