"""JSON Schema, checked in bounded time. Knows schemas and values, nothing of tools."""
