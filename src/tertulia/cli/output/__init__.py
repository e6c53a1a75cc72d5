"""What verbs print with: styled text, columns, JSON lines, the tree of conversations."""
