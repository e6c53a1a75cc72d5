"""The HTTP and WebSocket server: guards, tokens, bodies, routes."""
