"""ONE ISOLATED TALK: its context, its history, its turns."""
