"""Frozen data that all stages use: ids, items, inputs, events, tool specs, storage policies."""
