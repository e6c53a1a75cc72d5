"""Server processes shared by conversations: started, watched, restarted, closed."""
