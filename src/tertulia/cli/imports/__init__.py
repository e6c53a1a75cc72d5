"""`tertulia import`: what other programs keep about models, MCP servers and agents, as entries of our config.toml."""
