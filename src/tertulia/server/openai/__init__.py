"""The OpenAI-compatible surface of `tertulia serve`: chat completions, responses and models, at `/v1`."""
