"""What a command is: its words, whether it only reads, which files it names."""
