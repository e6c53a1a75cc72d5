"""One conversation: its terms, its state, the turn loop, and tasks that an executor does."""
