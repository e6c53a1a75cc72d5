"""WHAT IS WRITTEN DOWN: records of a session, each by the policy of its sources, and nothing else."""
