"""WHAT THE MODEL SEES: instructions, history and tools of one request."""
