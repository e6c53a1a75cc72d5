"""THE HOUSE: settings, the session and its conversations, the one operation set."""
