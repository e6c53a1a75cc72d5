"""`tertulia exec`: one message, followed to its end, as text or as JSON lines."""
