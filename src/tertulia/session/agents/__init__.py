"""Agents: prepared, registered, and reached by other programs through sockets."""
