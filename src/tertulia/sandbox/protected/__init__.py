"""Protected files: what a command changed of them, found and put back."""
