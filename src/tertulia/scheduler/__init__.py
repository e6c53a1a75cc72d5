"""WHO SPEAKS NEXT: chains in a queue, frames in a chain, one slot."""
