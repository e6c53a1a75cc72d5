"""Draws what a conversation shows: cells, Markdown and patches become rows of styled text."""
