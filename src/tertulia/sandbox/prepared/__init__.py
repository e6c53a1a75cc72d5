"""Sandboxes that are made before their command is known."""
