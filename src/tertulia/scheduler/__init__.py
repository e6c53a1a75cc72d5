"""Which chain runs next: chains in a queue, frames in a chain, one slot; every started task has one owner."""
