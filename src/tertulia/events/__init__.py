"""HOW NEWS TRAVELS: stamped once, committed before it is delivered, delivered to whoever listens, blocking nobody."""
