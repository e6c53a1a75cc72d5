"""RUNNING A COMMAND CONFINED: what it may touch, the tiers that hold it to that, its output, its end. Fails closed."""
