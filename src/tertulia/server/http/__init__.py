"""The HTTP server of `tertulia serve`: checks of every request, the bearer token, uvicorn."""
