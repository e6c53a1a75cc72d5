"""Mutants: does a test fail when a line of policy, scheduler, history or rollout is wrong? `make mutants`."""
