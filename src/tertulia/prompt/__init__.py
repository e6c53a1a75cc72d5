"""What the model sees in one request: instructions, history and tools."""
