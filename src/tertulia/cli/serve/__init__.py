"""Verbs that serve another program: HTTP, ACP, JSON-RPC, MCP, the broker."""
