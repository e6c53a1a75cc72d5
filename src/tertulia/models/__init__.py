"""TALKING TO A MODEL: one interface (`wire`), one file for each way of talking."""
