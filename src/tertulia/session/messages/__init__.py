"""What Python gives with a message and gets for it: options, typed outputs, the events as a stream."""
