"""`tertulia exec`: one message, followed to its end and shown as text or as JSON lines (`--json`)."""
