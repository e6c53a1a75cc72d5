"""What Python gets for messages: the events of one as a stream, the replies to many as they finish."""
