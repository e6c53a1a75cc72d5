"""`apply_patch`: a patch read, matched, planned and written whole."""
