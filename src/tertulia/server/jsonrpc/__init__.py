"""JSON-RPC over a stream: framing, bounded parsing, one connection, its events."""
