"""Hosts by name: which of them commands and `fetch` reach, and the pages that `fetch` reads."""
