"""What is allowed: rights that only narrow, approvals, limits, redaction."""
