"""Running MCP servers: a pool that conversations and sessions share, and what each session sees of it."""
