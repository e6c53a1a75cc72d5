"""TODO mounts."""
