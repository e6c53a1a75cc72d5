"""Measurements of the screen in processes of their own at a pseudo-terminal; `bench/terminal.py` prints them."""
