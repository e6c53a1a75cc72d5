"""The processes above a command that bubblewrap does not hold, and the tiers built on them."""
