"""MCP servers: configured, connected, pooled, limited, and being one."""
