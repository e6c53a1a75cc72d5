"""What an agent gets before it starts: MCP servers, tools and texts of context providers; its token, its canvas."""
