"""Logins to MCP servers by OAuth 2.1: tokens are kept, sent, renewed, and asked for where a person is there."""
