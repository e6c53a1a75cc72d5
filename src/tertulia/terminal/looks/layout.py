"""The style sheet of the screen, and the sizes from which on its parts are shown."""

from __future__ import annotations

TREE_COLUMNS = 100
"""From this width on the tree is shown; a narrower terminal has the rail."""
SIDE_COLUMNS = 140
"""From this width on the side panel stands beside the transcript; in a narrower terminal it takes its place."""
LEAST_COLUMNS, LEAST_ROWS = 24, 6
"""A smaller terminal shows one line, which says that there is no room."""

CSS = """
Screen { layout: vertical; }
#room { height: 1fr; display: none; }
#rail { height: 1; }
#body { height: 1fr; }
#tree { width: 30; height: 1fr; border-right: solid ansi_bright_black; }
#middle { width: 1fr; height: 1fr; }
#upper { height: 1fr; }
#transcript { width: 1fr; height: 1fr; }
#page { width: 1fr; height: 1fr; }
#notice { height: auto; max-height: 4; padding: 0 1; display: none; color: ansi_cyan; }
#notice.-wrong { color: ansi_red; }
#composer { padding: 0 1; border-top: solid ansi_bright_black; }
#side { width: 40; height: 1fr; border-left: solid ansi_bright_black; }
#side.-page { width: 1fr; border-left: none; }
#status { height: 1; }
"""
