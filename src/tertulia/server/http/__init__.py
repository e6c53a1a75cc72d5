"""The HTTP server of `tertulia serve`: checks of every request, tokens, WebSockets, uvicorn."""
