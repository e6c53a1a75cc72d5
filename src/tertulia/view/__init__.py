"""What a screen shows of a session: a fold over its events, without a terminal, a browser or a clock."""
