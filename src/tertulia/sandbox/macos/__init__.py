"""The tier of macOS: a profile made from a confinement, held by the system's own Seatbelt."""
