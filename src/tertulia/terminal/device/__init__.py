"""The terminal and what surrounds the screen: the driver, logs, the scrollback, the person's editor."""
