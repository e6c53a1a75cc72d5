"""Providers over HTTP: the three wires, streaming, retries, errors."""
