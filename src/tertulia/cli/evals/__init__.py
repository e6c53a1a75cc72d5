"""`tertulia eval`: runs a suite, tries out its checks, imports one, shows and compares results."""
