"""Reads stored sessions for clients: in threads, in parts, and without owning them."""
