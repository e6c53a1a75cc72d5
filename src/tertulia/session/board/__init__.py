"""What a client that comes late is shown of a session: a board, folded when the first one asks."""
