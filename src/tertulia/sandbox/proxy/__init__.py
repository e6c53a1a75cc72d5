"""The proxy through which a confined command reaches hosts by name, and no others."""
