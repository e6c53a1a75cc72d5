"""Ways in for other programs: JSON-RPC, HTTP, ACP, Codex clients and MCP."""
