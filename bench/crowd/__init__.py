"""What `bench many` runs: clients of a served process, and programs with many sessions in processes of their own."""
