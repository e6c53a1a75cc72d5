"""`tertulia sessions`: stored sessions listed, shown, exported, replayed, forked."""
