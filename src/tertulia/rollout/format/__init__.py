"""Records as rows: encoded, packed, referred to, read back."""
