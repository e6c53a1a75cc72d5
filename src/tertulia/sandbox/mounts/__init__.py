"""What a command sees of the file system below bubblewrap, mounted by descriptor."""
