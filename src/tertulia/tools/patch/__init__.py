"""`apply_patch`: a patch is parsed, matched and planned in memory, then written as a whole or not at all."""
