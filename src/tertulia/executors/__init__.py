"""Other programs that do a conversation's work: one interface (`executor`), run once a task or kept running."""
