"""What people see: columns, colours, JSON lines, the tree of conversations."""
