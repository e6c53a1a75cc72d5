"""Agents that stay, spoken to by the Agent Client Protocol."""
