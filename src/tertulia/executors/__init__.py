"""Other programs that do a conversation's work: one interface (`executor`), started for each task or kept running."""
