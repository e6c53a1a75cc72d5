"""Tertulia as an agent of the Agent Client Protocol, for editors."""
