"""What an agent gets before it starts: MCP servers, tools and texts from context providers, a token and a canvas."""
