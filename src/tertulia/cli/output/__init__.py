"""What verbs print with: styled text and JSON lines, columns and the tree of conversations."""
