"""Paths that commands may not read or change: credentials, startup files, our own."""
