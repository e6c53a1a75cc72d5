"""Approvals and elicitations: who can answer, and how an answer arrives."""
