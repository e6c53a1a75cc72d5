"""What the screen is drawn on and what lies around it: the driver, logs, the scrollback, the editor of the person."""
