"""How the screen looks and which keys it knows: themes, marks, places of widgets, the key map."""
