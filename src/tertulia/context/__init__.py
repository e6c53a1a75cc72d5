"""What an agent is told before it starts: servers, tools and texts, collected from context providers."""
