"""The transcript: a virtual list of cells with its own scroll position, cursor, selection and search."""
