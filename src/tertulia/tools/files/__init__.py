"""Tools that view, find and change files of the workspace; what they read is read in the sandbox."""
