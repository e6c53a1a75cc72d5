"""What only a person at a terminal of this process may do; no operation of a wire reaches it."""
