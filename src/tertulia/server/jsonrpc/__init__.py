"""JSON-RPC with one client: bounded parsing, requests in both directions, events, standard streams."""
