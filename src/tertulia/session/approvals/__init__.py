"""TODO approvals."""
