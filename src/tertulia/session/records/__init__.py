"""What is stored of sessions, for those who only look: read in threads, in parts, and never owned."""
